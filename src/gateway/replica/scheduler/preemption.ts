import type { Sequence } from '../../request/sequence.js';

/**
 * A sequence is preempted for blocks at most this often. Then it waits, and others behind it, until it gets all the blocks
 * it may ever need, and keeps them.
 */
const MAX_PREEMPTIONS = 3;

/** Slots that a peer's sequences hold. */
type SlotsOf = (peer: string) => number;

/** True if it was preempted as often as may be; when it runs, it holds all its blocks. */
export function isProtected(sequence: Sequence): boolean {
  return sequence.preemptions >= MAX_PREEMPTIONS;
}

/**
 * The lowest-priority sequence that nothing is computed for, so that it can give up what it has: its reader does not keep up, or
 * its constraint is still translated.
 *
 * @param next the one that needs it; of two whose constraints are translated none gives way
 */
export function idleFor(next: Sequence, running: readonly Sequence[]): Sequence | undefined {
  const isIdle = ({ paused, isLate, isOpening }: Sequence) => paused || (isLate && isOpening && !next.isOpening);
  return running.findLast((sequence) => sequence.state === 'running' && isIdle(sequence));
}

/**
 * Sequence that gives up its blocks for a running one: of those of the lowest priority, no higher than that one's, one of the
 * peer that holds the most slots; of those, the newest. That may be the one in need itself.
 *
 * @param running by priority
 */
export function victimFor(needy: Sequence, running: readonly Sequence[], slotsOf: SlotsOf): Sequence {
  let victim: Sequence | undefined;
  for (const sequence of running.toReversed()) {
    const { priority } = sequence.options;
    if (priority > (victim ?? needy).options.priority) break;
    if (sequence.state !== 'running' || isProtected(sequence)) continue;
    if (victim === undefined || slotsHeld(sequence, slotsOf) > slotsHeld(victim, slotsOf)) victim = sequence;
  }
  return victim ?? needy;
}

/**
 * Sequence that gives up its slot for the next waiting one: the newest of the peer that holds the most slots, if those
 * are at least two more than the waiting one's peer holds, and none of a higher priority.
 *
 * Each such exchange makes what peers hold more equal, so nobody is sent to and fro; and a peer's highest-priority sequence
 * always keeps its slot, so each comes to its end.
 *
 * @param running by priority
 */
export function holderOfTooMany(next: Sequence, running: readonly Sequence[], slotsOf: SlotsOf): Sequence | undefined {
  let victim: Sequence | undefined;
  let most = slotsHeld(next, slotsOf) + 1;
  for (const sequence of running.toReversed()) {
    if (sequence.options.priority > next.options.priority) break;
    if (sequence.state !== 'running' || isProtected(sequence) || slotsHeld(sequence, slotsOf) <= most) continue;
    victim = sequence;
    most = slotsHeld(sequence, slotsOf);
  }
  return victim;
}

function slotsHeld(sequence: Sequence, slotsOf: SlotsOf): number {
  return slotsOf(sequence.options.peer ?? '');
}
