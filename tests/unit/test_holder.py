"""Whether a holder lives is seen by its pid and start time, and only where those mean something."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from evervec.holder import alive, this_process


def test_this_process_lives():
    me = this_process("w")
    assert alive(me, this_process("other")) is True
    assert me == this_process("w"), "nothing in it changes while the process lives"


def test_a_pid_that_was_given_to_another_process_is_not_the_holder():
    me = this_process("w")
    assert alive(replace(me, started=me.started - 1), me) is False


def test_an_ended_process_is_dead_whether_or_not_its_parent_has_noticed():
    code = "from evervec.holder import this_process as t; h = t('w'); print(h.pid, h.started)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        pid, started = map(int, process.communicate()[0].split())
        me = this_process("w")
        child = replace(me, pid=pid, started=started)
    assert alive(child, me) is False


def test_a_zombie_is_dead():
    process = subprocess.Popen(["sleep", "60"])
    me = this_process("w")
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    child = replace(me, pid=process.pid, started=int(stat.rpartition(")")[2].split()[19]))
    assert alive(child, me) is True
    process.kill()
    while alive(child, me):
        pass
    process.wait()


def test_of_another_host_or_boot_or_pid_namespace_nothing_is_known():
    me = this_process("w")
    assert alive(replace(me, host="elsewhere"), me) is None
    assert alive(replace(me, boot="another"), me) is None
