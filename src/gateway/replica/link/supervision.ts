/**
 * The supervisor's state machine. Pure: `supervisor.ts` performs the actions that it returns.
 *
 * starting   a process is started, or an address connected to
 * warming    the executor responds and loads the model
 * serving    the executor is given steps
 * suspect    the executor hung, broke its stream or could not load, and is being ended
 * restarting the executor has ended, and the next starts soon
 * failed     too many executors ended by themselves in a short time, or none has served for the recovery timeout. Or the executor
 *            is unhealthy, belongs to another gateway, or refused a requested load. The next starts after a delay or on request
 * unloading  the executor is being ended on request; the next starts only on request
 * unloaded   there is no executor; one starts on request
 * stopped    the gateway shuts down
 */
export type SupervisorState =
  | 'starting'
  | 'warming'
  | 'serving'
  | 'suspect'
  | 'restarting'
  | 'failed'
  | 'unloading'
  | 'unloaded'
  | 'stopped';

export type SupervisorEvent =
  /** The executor answered; its load begins. */
  | 'answered'
  /** The model is loaded. */
  | 'ready'
  /** A step came back. */
  | 'step'
  /** A step did not come back in time. */
  | 'overdue'
  /** The connection, the stream or the load failed. */
  | 'broken'
  /** The process has ended, or could not be killed. */
  | 'gone'
  /** The executor at the address belongs to another gateway for now. */
  | 'busy'
  /** It faulted in a step that had only the control. */
  | 'unhealthy'
  /** A request to replace the executor that serves. */
  | 'replace'
  /** A request to unload the model, or it has been idle. */
  | 'unload'
  /** A request that needs the model loaded. */
  | 'load'
  /** The executor reported why it cannot load the model; `gone` follows. */
  | 'refused'
  /** The delay of `wait` is over. */
  | 'due'
  /** The gateway ends. */
  | 'stop';

export type SupervisorAction =
  /** Start a process or connect to the address, as a new executor. */
  | { readonly do: 'spawn' }
  /** Give the loaded executor steps. */
  | { readonly do: 'serve' }
  /** Report that everything the executor held is lost. */
  | { readonly do: 'lose' }
  /** End the process; `gone` follows. */
  | { readonly do: 'terminate' }
  /** Report why the requested load was refused, and for how long none is tried. */
  | { readonly do: 'refuse'; readonly ms: number }
  /** Raise `due` after this time. */
  | { readonly do: 'wait'; readonly ms: number };

export interface Supervision {
  readonly state: SupervisorState;
  /** When executors ended since the last completed step, in milliseconds, within {@link RESTART_WINDOW_MS}. */
  readonly deaths: readonly number[];
  /** Executors killed from outside since the last completed step, and when the first executor was lost since then, in milliseconds. */
  readonly kills?: number | undefined;
  readonly lostSince?: number | undefined;
  /** When it began to serve, in milliseconds. */
  readonly servingSince?: number | undefined;
  /** It was `failed`, and no step has come back since: one more death is enough. */
  readonly probing: boolean;
  /** Time since which the executor has belonged to another gateway, in milliseconds. */
  readonly busySince?: number | undefined;
  /** The executor is ended to be replaced: the next starts at once, and no death is counted. */
  readonly replacing?: boolean | undefined;
  /** A load was requested and has not finished; if the executor is unloading, the load follows. */
  readonly demanded?: boolean | undefined;
  /** Requested loads that were refused since an executor served. */
  readonly refusals?: number | undefined;
  readonly refused?: boolean | undefined;
}

export interface Circumstances {
  readonly nowMs: number;
  /** 0 to 1. */
  readonly random: number;
  /** Deaths within the window after which it is `failed`. */
  readonly maxRestarts: number;
  /** Milliseconds without a completed step after which it is `failed`, also if the executors were killed. */
  readonly recoveryTimeoutMs: number;
  /** Time after which a `failed` one is tried again, in milliseconds; default {@link PROBE_INTERVAL_MS}. */
  readonly probeIntervalMs?: number | undefined;
  /** With `gone`: another process killed it; default false. */
  readonly isOutside?: boolean | undefined;
}

export const RESTART_WINDOW_MS = 60_000;
export const PROBE_INTERVAL_MS = 30_000;
/** Interval at which an executor of another gateway is tried again, and time that requests wait for it. */
export const BUSY_RETRY_MS = 500;
export const BUSY_LIMIT_MS = 30_000;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 5_000;
/** Time without loads after a refused one: the first time; it doubles with each. */
const FIRST_REFUSAL_MS = 1_000;

export const BEGINNING: Supervision = { state: 'starting', deaths: [], probing: false };
/** State of an executor that is started on demand. */
export const UNLOADED: Supervision = { state: 'unloaded', deaths: [], probing: false };

/** True if a request has reason to wait: an executor serves, or one is started for it. */
export function canServe({ state, demanded = false }: Supervision): boolean {
  if (state === 'serving' || state === 'unloading' || state === 'unloaded') return true;
  return demanded && state !== 'failed' && state !== 'stopped';
}

/** State after an event. Events that arrive too late for a state change nothing. */
export function decide(
  before: Supervision,
  event: SupervisorEvent,
  circumstances: Circumstances,
): { readonly after: Supervision; readonly actions: readonly SupervisorAction[] } {
  const { state } = before;
  const to = (next: SupervisorState, ...actions: SupervisorAction[]) => ({
    after: { ...before, state: next },
    actions,
  });
  if (state === 'stopped') return to('stopped');
  if (event === 'stop') return to('stopped', { do: 'terminate' });
  switch (state) {
    case 'starting':
    case 'warming':
      if (event === 'answered') return to('warming');
      if (event === 'ready') {
        const { deaths, probing, kills, lostSince } = before;
        const servingSince = circumstances.nowMs;
        return {
          after: { state: 'serving', deaths, probing, kills, lostSince, servingSince },
          actions: [{ do: 'serve' }],
        };
      }
      if (event === 'refused') return { after: { ...before, refused: true }, actions: [] };
      if (event === 'broken') return to('suspect', { do: 'terminate' });
      if (event === 'gone') return buried(before, [], circumstances);
      if (event === 'busy') return occupied(before, circumstances);
      break;
    case 'serving':
      if (event === 'step') return { after: { state, deaths: [], probing: false }, actions: [] };
      if (event === 'overdue' || event === 'broken') return to('suspect', { do: 'lose' }, { do: 'terminate' });
      if (event === 'replace') {
        return {
          after: { ...before, state: 'suspect', replacing: true },
          actions: [{ do: 'lose' }, { do: 'terminate' }],
        };
      }
      if (event === 'unload') return to('unloading', { do: 'lose' }, { do: 'terminate' });
      if (event === 'gone') return buried(before, [{ do: 'lose' }], circumstances);
      break;
    case 'unloading':
      if (event === 'load') return { after: { ...before, demanded: true }, actions: [] };
      // Not at once: first it is told that the last one is gone.
      if (event === 'gone') return before.demanded ? to('restarting', { do: 'wait', ms: 0 }) : to('unloaded');
      break;
    case 'unloaded':
      if (event === 'load') {
        return { after: { ...before, state: 'starting', demanded: true }, actions: [{ do: 'spawn' }] };
      }
      break;
    case 'suspect':
      if (event === 'gone' && before.replacing) {
        return {
          after: { ...before, state: 'restarting', replacing: undefined },
          actions: [{ do: 'wait', ms: 0 }],
        };
      }
      if (event === 'gone') return buried(before, [], circumstances);
      break;
    case 'restarting':
      if (event === 'unhealthy') {
        return {
          after: { ...before, state: 'failed', probing: true },
          actions: [{ do: 'wait', ms: circumstances.probeIntervalMs ?? PROBE_INTERVAL_MS }],
        };
      }
      if (event === 'due') return to('starting', { do: 'spawn' });
      break;
    case 'failed':
      if (event === 'unload' || (event === 'due' && before.demanded)) {
        return { after: { ...before, state: 'unloaded', demanded: undefined }, actions: [] };
      }
      if (event === 'due') return to('starting', { do: 'spawn' });
      break;
  }
  return to(state);
}

/** The executor belongs to another gateway, which may still be draining. Nothing died, so nothing is counted. */
function occupied(
  before: Supervision,
  { nowMs }: Circumstances,
): { readonly after: Supervision; readonly actions: readonly SupervisorAction[] } {
  const { busySince = nowMs } = before;
  const state = nowMs - busySince < BUSY_LIMIT_MS ? 'restarting' : 'failed';
  return { after: { ...before, state, busySince }, actions: [{ do: 'wait', ms: BUSY_RETRY_MS }] };
}

/**
 * An executor has ended: the next begins soon, or after a long while when that has not helped. One that was asked for and has
 * said why it cannot serve is not tried again before it is asked for again.
 */
function buried(
  before: Supervision,
  actions: readonly SupervisorAction[],
  circumstances: Circumstances,
): { readonly after: Supervision; readonly actions: readonly SupervisorAction[] } {
  const { nowMs, random, maxRestarts, recoveryTimeoutMs, isOutside = false } = circumstances;
  const { probeIntervalMs = PROBE_INTERVAL_MS } = circumstances;
  const { deaths, probing, demanded, refusals = 0, servingSince = nowMs } = before;
  // Idle, it completed no step because there was none: what was before is over.
  const wasIdle = nowMs - servingSince >= RESTART_WINDOW_MS;
  const { kills = 0, lostSince = nowMs } = wasIdle ? {} : before;
  if (demanded && before.refused) {
    const ms = Math.min(probeIntervalMs, FIRST_REFUSAL_MS * 2 ** refusals);
    const after = { ...before, state: 'failed', refused: undefined, refusals: refusals + 1 } as const;
    return { after, actions: [...actions, { do: 'refuse', ms }, { do: 'wait', ms }] };
  }
  const earlier = deaths.filter((at) => nowMs - at < RESTART_WINDOW_MS);
  const recent = isOutside ? earlier : [...earlier, nowMs];
  const count = isOutside ? kills + 1 : recent.length;
  const ends = { deaths: recent, kills: isOutside ? count : kills, lostSince, demanded, refusals };
  const isOver = nowMs - lostSince >= recoveryTimeoutMs;
  if (isOver || (!isOutside && (probing || recent.length > maxRestarts))) {
    const after = { ...ends, state: 'failed', probing: true } as const;
    return { after, actions: [...actions, { do: 'wait', ms: probeIntervalMs }] };
  }
  const exponential = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (count - 1));
  // Jitter, so that several gateways of one failed device do not come back in step. The first try is immediate.
  const ms = count === 1 ? 0 : exponential * (0.5 + random / 2);
  const after = { ...ends, state: 'restarting', probing } as const;
  return { after, actions: [...actions, { do: 'wait', ms }] };
}
