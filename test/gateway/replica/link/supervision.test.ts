import { expect, it } from 'vitest';
import {
  BEGINNING,
  BUSY_LIMIT_MS,
  canServe,
  decide,
  PROBE_INTERVAL_MS,
  RESTART_WINDOW_MS,
  type Supervision,
  type SupervisorEvent,
  type SupervisorState,
  UNLOADED,
} from '../../../../src/gateway/replica/link/supervision.js';

const NOW = 1_000_000;
const AT = { nowMs: NOW, random: 1, maxRestarts: 3, recoveryTimeoutMs: 20 * RESTART_WINDOW_MS };
const EVENTS = [
  ...(['answered', 'ready', 'step', 'overdue', 'broken', 'gone', 'due', 'busy', 'unhealthy', 'stop'] as const),
  ...(['load', 'unload', 'refused'] as const),
];

/** Effect of each event in each state: the next state and the actions; absent: nothing at all. */
const TABLE: Readonly<Record<SupervisorState, Partial<Record<SupervisorEvent, string>>>> = {
  starting: {
    answered: 'warming',
    ready: 'serving: serve',
    broken: 'suspect: terminate',
    gone: 'restarting: wait',
    busy: 'restarting: wait',
    stop: 'stopped: terminate',
  },
  warming: {
    ready: 'serving: serve',
    broken: 'suspect: terminate',
    gone: 'restarting: wait',
    busy: 'restarting: wait',
    stop: 'stopped: terminate',
  },
  serving: {
    overdue: 'suspect: lose terminate',
    broken: 'suspect: lose terminate',
    gone: 'restarting: lose wait',
    unload: 'unloading: lose terminate',
    stop: 'stopped: terminate',
  },
  unloading: { gone: 'unloaded', stop: 'stopped: terminate' },
  unloaded: { load: 'starting: spawn', stop: 'stopped: terminate' },
  suspect: { gone: 'restarting: wait', stop: 'stopped: terminate' },
  restarting: { due: 'starting: spawn', unhealthy: 'failed: wait', stop: 'stopped: terminate' },
  failed: { due: 'starting: spawn', unload: 'unloaded', stop: 'stopped: terminate' },
  stopped: {},
};

const cases = Object.entries(TABLE).flatMap(([state, row]) =>
  EVENTS.map((event) => [state as SupervisorState, event, row[event] ?? state] as const),
);

it.each(cases)('%s, %s -> %s', (state, event, expected) => {
  const { after, actions } = decide({ ...BEGINNING, state }, event, AT);
  const told = actions.length === 0 ? after.state : `${after.state}: ${actions.map((action) => action.do).join(' ')}`;
  expect(told).toBe(expected);
});

/** One executor that begins and dies, at a time. @returns the state after it and how long is waited */
function death(before: typeof BEGINNING, nowMs: number, random = 1, isOutside = false) {
  const begun = decide({ ...before, state: 'starting' }, 'ready', { ...AT, nowMs });
  const { after, actions } = decide(begun.after, 'gone', { ...AT, nowMs, random, isOutside });
  const wait = actions.find((action) => action.do === 'wait');
  return { after, ms: wait?.do === 'wait' ? wait.ms : undefined };
}

it('the first restart is immediate, later ones wait twice as long each time, less up to half by chance', () => {
  const first = death(BEGINNING, NOW);
  const second = death(first.after, NOW + 1);
  const third = death(second.after, NOW + 2);
  expect([first.ms, second.ms, third.ms]).toEqual([0, 100, 200]);
  expect(death(second.after, NOW + 2, 0).ms).toBe(100);
});

it('more deaths in a window than allowed are a failure, and the next is tried after a long while', () => {
  let supervision = BEGINNING;
  for (let i = 0; i < AT.maxRestarts; i++) supervision = death(supervision, NOW + i).after;
  expect(supervision.state).toBe('restarting');
  const { after, ms } = death(supervision, NOW + AT.maxRestarts);
  expect([after.state, ms]).toEqual(['failed', PROBE_INTERVAL_MS]);
});

it('deaths older than the window do not count', () => {
  let supervision = BEGINNING;
  for (let i = 0; i <= 3 * AT.maxRestarts; i++) {
    supervision = death(supervision, NOW + (i * RESTART_WINDOW_MS) / 2).after;
    expect(supervision.state).toBe('restarting');
  }
});

it('one that is killed again and again has not failed, but no step in the recovery timeout is a failure', () => {
  const killed = (before: typeof BEGINNING, nowMs: number) => death(before, nowMs, 1, true);
  let supervision = killed(BEGINNING, NOW).after;
  const waits: (number | undefined)[] = [];
  for (let at = 1000; at < AT.recoveryTimeoutMs; at += RESTART_WINDOW_MS / 4) {
    const next = killed(supervision, NOW + at);
    supervision = next.after;
    waits.push(next.ms);
    expect(supervision.state).toBe('restarting');
  }
  expect(waits.slice(0, 3)).toEqual([100, 200, 400]);
  expect(Math.max(...waits.map(Number))).toBe(5000);
  // Its own deaths count as before.
  expect(death(supervision, NOW + 2000).after.state).toBe('restarting');
  expect(killed(supervision, NOW + AT.recoveryTimeoutMs).after.state).toBe('failed');
  const serving = decide({ ...supervision, state: 'starting' }, 'ready', AT).after;
  const stepped = decide(serving, 'step', AT).after;
  expect(killed(stepped, NOW + AT.recoveryTimeoutMs)).toMatchObject({ ms: 0, after: { state: 'restarting' } });
});

it('an executor that had nothing to do for longer than a window begins anew', () => {
  const first = death(BEGINNING, NOW, 1, true).after;
  const serving = decide({ ...first, state: 'starting' }, 'ready', AT).after;
  const later = { ...AT, nowMs: NOW + AT.recoveryTimeoutMs, isOutside: true };
  expect(decide(serving, 'gone', later)).toMatchObject({ after: { state: 'restarting' }, actions: [{}, { ms: 0 }] });
});

it('after a failure one death is enough, however long ago the others were, until a step has come back', () => {
  let supervision = BEGINNING;
  for (let i = 0; i <= AT.maxRestarts; i++) supervision = death(supervision, NOW).after;
  const probe = death(supervision, NOW + 10 * RESTART_WINDOW_MS);
  expect([probe.after.state, probe.ms]).toEqual(['failed', PROBE_INTERVAL_MS]);
  const serving = decide({ ...probe.after, state: 'starting' }, 'ready', AT).after;
  const stepped = decide(serving, 'step', AT).after;
  expect(stepped).toEqual({ state: 'serving', deaths: [], probing: false });
  expect(decide(stepped, 'gone', AT).after.state).toBe('restarting');
});

it('an executor that is another gateway’s counts no deaths, and is asked on when requests were told that it is not to be had', () => {
  const busy = (before: typeof BEGINNING, nowMs: number) =>
    decide({ ...before, state: 'starting' }, 'busy', { ...AT, nowMs }).after;
  const first = busy(BEGINNING, NOW);
  expect([first.state, first.deaths]).toEqual(['restarting', []]);
  expect(busy(first, NOW + BUSY_LIMIT_MS - 1).state).toBe('restarting');
  const long = busy(first, NOW + BUSY_LIMIT_MS);
  expect([long.state, long.probing]).toEqual(['failed', false]);
  expect(decide({ ...long, state: 'starting' }, 'ready', AT).after).toEqual({
    ...BEGINNING,
    state: 'serving',
    servingSince: NOW,
  });
});

/** Effect of events, one after the other: the states, and the actions of the last. */
function after(before: Supervision, ...events: readonly SupervisorEvent[]) {
  const states: SupervisorState[] = [];
  let step: ReturnType<typeof decide> = { after: before, actions: [] };
  for (const event of events) {
    step = decide(step.after, event, AT);
    states.push(step.after.state);
  }
  return { ...step, states };
}

it('an executor that is asked for while it is being ended follows once it has ended, and counts no death', () => {
  const { states, after: last } = after(
    { ...BEGINNING, state: 'serving' },
    'unload',
    'load',
    'load',
    'gone',
    'due',
    'ready',
  );
  expect(states).toEqual(['unloading', 'unloading', 'unloading', 'restarting', 'starting', 'serving']);
  expect(last).toEqual({ ...BEGINNING, state: 'serving', servingSince: NOW });
});

it('what happens late to an executor that is being ended, or was, changes nothing', () => {
  for (const state of ['unloading', 'unloaded'] as const) {
    for (const event of ['broken', 'overdue', 'step', 'ready', 'answered', 'due', 'unload', 'replace'] as const) {
      expect(after({ ...BEGINNING, state }, event)).toMatchObject({ after: { ...BEGINNING, state }, actions: [] });
    }
  }
});

it('a load that was asked for and refused is tried again when it is asked for again, each time after twice as long', () => {
  let supervision = UNLOADED;
  const waits: number[] = [];
  for (let i = 0; i < 7; i++) {
    const refused = after(supervision, 'load', 'answered', 'refused', 'broken', 'gone');
    expect(refused.states).toEqual(['starting', 'warming', 'warming', 'suspect', 'failed']);
    expect(refused.actions.map((action) => action.do)).toEqual(['refuse', 'wait']);
    expect(canServe(refused.after)).toBe(false);
    for (const action of refused.actions) if (action.do === 'wait') waits.push(action.ms);
    // A request before the time is over starts nothing.
    expect(after(refused.after, 'load').actions).toEqual([]);
    const due = after(refused.after, 'due');
    expect([due.after.state, due.actions]).toEqual(['unloaded', []]);
    supervision = due.after;
  }
  expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, PROBE_INTERVAL_MS, PROBE_INTERVAL_MS]);
  const served = after(supervision, 'load', 'ready', 'unload', 'gone', 'load', 'refused', 'broken', 'gone');
  expect(served.actions).toContainEqual({ do: 'wait', ms: 1000 });
});

it('an executor that dies while it loads what was asked for is followed by another, as one that served', () => {
  const killed = after(UNLOADED, 'load', 'answered', 'gone', 'due');
  expect(killed.states).toEqual(['starting', 'warming', 'restarting', 'starting']);
  let supervision: Supervision = { ...UNLOADED, state: 'starting', demanded: true };
  for (let i = 0; i < AT.maxRestarts; i++) supervision = after(supervision, 'gone', 'due').after;
  const given = after(supervision, 'gone');
  expect([given.after.state, given.actions]).toEqual(['failed', [{ do: 'wait', ms: PROBE_INTERVAL_MS }]]);
  // Nobody may want it by then.
  expect(after(given.after, 'due').after.state).toBe('unloaded');
});

it('a refusal at the start, or after a death, is what it was: an end like others', () => {
  const refused = after(BEGINNING, 'answered', 'refused', 'broken', 'gone');
  expect(refused.states).toEqual(['warming', 'warming', 'suspect', 'restarting']);
});

it.each([
  ['starting', false, true],
  ['warming', false, true],
  ['suspect', false, true],
  ['restarting', false, true],
  ['serving', true, true],
  ['unloading', true, true],
  ['unloaded', true, true],
  ['failed', false, false],
  ['stopped', false, false],
] as const)('a request has reason to wait while %s: %s; where a load was asked for: %s', (state, plain, demanded) => {
  expect(canServe({ ...BEGINNING, state })).toBe(plain);
  expect(canServe({ ...BEGINNING, state, demanded: true })).toBe(demanded);
});
