import { expect, it } from 'vitest';
import {
  BEGINNING,
  BUSY_LIMIT_MS,
  decide,
  PROBE_INTERVAL_MS,
  RESTART_WINDOW_MS,
  type SupervisorEvent,
  type SupervisorState,
} from '../../../../src/gateway/replica/link/supervision.js';

const NOW = 1_000_000;
const AT = { nowMs: NOW, random: 1, maxRestarts: 3 };
const EVENTS = [
  ...(['answered', 'ready', 'step', 'overdue', 'broken', 'gone', 'due', 'busy', 'ill', 'stop'] as const),
  ...(['load', 'unload', 'refused'] as const),
];

/** What each event does in each state: the next state and the actions; absent: nothing at all. */
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
  restarting: { due: 'starting: spawn', ill: 'failed: wait', stop: 'stopped: terminate' },
  failed: { due: 'starting: spawn', stop: 'stopped: terminate' },
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
function death(before: typeof BEGINNING, nowMs: number, random = 1) {
  const begun = decide({ ...before, state: 'starting' }, 'ready', { ...AT, nowMs });
  const { after, actions } = decide(begun.after, 'gone', { ...AT, nowMs, random });
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
  expect(decide({ ...long, state: 'starting' }, 'ready', AT).after).toEqual({ ...BEGINNING, state: 'serving' });
});
