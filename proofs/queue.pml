/*
 * The protocol of one document: from a committed change to a vector that is its embedding.
 *
 * One document is enough, because every guard names one key. What is left out cannot help the
 * protocol: batches, lanes, delays and text. Versions stand for texts; leases are the fences.
 *
 *   Writer   commits versions 1 … VERSIONS; each commit leaves one change in the log.
 *   Capture  folds a change from the log into the document's single job.
 *   Reaper   takes any lease away at any moment. No time is modelled, so an early, a late and a
 *            mistaken expiry are all among the runs, and so is a holder that goes on regardless.
 *   Worker   claims; reads the newest version AFTER the claim; publishes; settles. It can die
 *            after the read and after the publication.
 *
 * Proved in every reachable state:
 *   - when nobody works and nothing waits, the store holds the newest version (G1, G2);
 *   - with BY_VERSION, the store never steps back, not even for a moment (G2).
 *
 * Taken out, one at a time, to show that each guard is needed (scripts/prove expects an error):
 *   FORGETS_CHANGES    settling ignores changes that arrived during the attempt
 *   SKIPS_LEASED       a change is dropped because its job is leased already
 *   STORE_UNFENCED     a publication is accepted whatever is stored
 *   SETTLE_UNFENCED    a job may be settled by someone who no longer holds it
 *   READS_BEFORE_CLAIM the text is read before the claim
 *
 * The guard of the store is (version, fence) with BY_VERSION, as for a source that counts its own
 * changes, and the fence alone without it, as for a folder. The fence alone ends right, but may
 * step back for a moment: `-DNEVER_BACK` without BY_VERSION must therefore find an error.
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef VERSIONS
#define VERSIONS 3
#endif
/* The most claims in one run: bounds the search, since a lease may be lost for ever. */
#ifndef CLAIMS
#define CLAIMS 5
#endif

mtype = { absent, ready, leased };

byte newest = 0;             /* the version committed in the source */
byte captured = 0;           /* changes committed to the log and not folded yet */

mtype state = absent;        /* the job: one row, or none when in sync */
byte want = 0;               /* changes merged into it */
byte took = 0;               /* changes its holder knew of when it claimed */
byte holder = 0;             /* the lease that may settle it */
byte fences = 0;             /* the last lease given out; grows, is never reused */

byte stored = 0;             /* the version whose vectors are searchable */
byte stored_fence = 0;       /* the lease that published it */

byte working = 0;            /* attempts under way, zombies included */
bool went_back = false;      /* a searchable version was replaced by an older one */

inline accept(version, fence) {
    if
    :: version < stored -> went_back = true
    :: else
    fi;
    stored = version;
    stored_fence = fence;
    accepted = true
}

inline publish(version, fence) {
#if defined(STORE_UNFENCED)
    accept(version, fence)
#elif defined(BY_VERSION)
    if
    :: version > stored || (version == stored && fence > stored_fence) ->
        accept(version, fence)
    :: else ->
        /* What is stored is as new or newer, so the work is done. */
        accepted = true
    fi
#else
    if
    :: fence > stored_fence ->
        accept(version, fence)
    :: else ->
        /* A later lease was first, perhaps with an older text: hand the job back. */
        accepted = false
    fi
#endif
}

#ifdef SETTLE_UNFENCED
#define MAY_SETTLE(fence) (state == leased)
#else
#define MAY_SETTLE(fence) (state == leased && holder == fence)
#endif

#ifdef FORGETS_CHANGES
#define IN_SYNC (accepted)
#else
#define IN_SYNC (accepted && want == took)
#endif

inline settle(fence) {
    if
    :: MAY_SETTLE(fence) ->
        if
        :: IN_SYNC -> state = absent; want = 0; took = 0
        :: else -> state = ready
        fi
    :: else
    fi
}

inline claim(fence) {
    fences++;
    fence = fences;
    holder = fence;
    state = leased;
    took = want;
    working++
}

active proctype Writer() {
    do
    :: atomic { newest < VERSIONS -> newest++; captured++ }
    :: atomic { newest == VERSIONS -> break }
    od
}

active proctype Capture() {
end:
    do
    :: atomic {
        captured > 0 ->
            captured--;
            if
            :: state == absent -> state = ready; want = 1; took = 0
            :: state == ready -> want++
            :: state == leased ->
#ifdef SKIPS_LEASED
                skip
#else
                want++
#endif
            fi
    }
    od
}

active proctype Reaper() {
end:
    do
    :: atomic { state == leased -> state = ready }
    od
}

active [WORKERS] proctype Worker() {
    byte fence = 0;
    byte text = 0;
    bool accepted = false;

end:
    do
    ::
#ifdef READS_BEFORE_CLAIM
        atomic { state == ready && fences < CLAIMS -> text = newest };
        atomic {
            if
            :: state == ready && fences < CLAIMS -> claim(fence)
            :: else -> goto rest
            fi
        };
#else
        atomic { state == ready && fences < CLAIMS -> claim(fence) };
        atomic { text = newest };
#endif
        if
        :: skip
        :: atomic { working--; goto rest }
        fi;
        atomic { publish(text, fence) };
        if
        :: skip
        :: atomic { working--; goto rest }
        fi;
        atomic { settle(fence); working-- };
rest:
        /* What a dead worker knew is gone. Forgetting it also keeps the states few. */
        atomic { fence = 0; text = 0; accepted = false }
    od
}

active proctype Settled() {
end:
    atomic {
        (state == absent && captured == 0 && newest > 0 && working == 0) ->
            assert(stored == newest)
    }
}

#ifdef NEVER_BACK
active proctype Steady() {
end:
    atomic { went_back -> assert(false) }
}
#endif
