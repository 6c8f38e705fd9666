import { effect, signal } from '@preact/signals';
import { token } from './address.js';
import { credentialProblem, reportFailure } from './failures.js';
import { type RateHistory, sampled } from './rates.js';
import { json } from './requests.js';

/** A model that the server serves. */
export interface ModelInfo {
  readonly id: string;
  readonly max_model_len: number;
}

/** An executor, see `ReplicaState` of the gateway. */
export interface ReplicaState {
  readonly state: string;
  readonly device: string;
  readonly executors: number;
  readonly running: number;
  readonly waiting: number;
  readonly slots: number;
  readonly kv_usage: number;
  readonly problem: string;
}

/** A model, see `ModelState` of the gateway. */
export interface ModelState {
  readonly name: string;
  readonly state: string;
  readonly replicas: readonly ReplicaState[];
  readonly generated_tokens: number;
  readonly prompt_tokens: number;
  readonly recoveries: number;
  readonly recovery_seconds: number;
}

export interface ServerState {
  readonly uptime_seconds: number;
  readonly models: readonly ModelState[];
}

interface PageState {
  readonly version: string;
  readonly can_kill_executor: boolean;
  readonly server?: ServerState;
}

const POLL_MS = 2000;

export const models = signal<readonly ModelInfo[]>([]);
/** Absent: the server lets no client see it. */
export const server = signal<ServerState | undefined>(undefined);
export const version = signal('');
export const canKillExecutor = signal(false);
export const history = signal<RateHistory>({ samples: [], recoveries: [] });
/** Why the server cannot be reached; empty: it can. */
export const connectionProblem = signal('');

let timer: ReturnType<typeof setTimeout> | undefined;

/** Reads the models, and from then on the state of the server while the page is visible. */
export function watchServer(): void {
  effect(() => {
    // Another token may see more.
    token.value;
    void poll();
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void poll();
  });
}

/** Reads the state of the server at once. */
export async function poll(): Promise<void> {
  clearTimeout(timer);
  let isWatched = true;
  try {
    const state = await json<PageState>('rocmforge/page');
    if (models.peek().length === 0 || connectionProblem.peek() !== '' || hasOtherModels(state)) {
      models.value = (await json<{ data: ModelInfo[] }>('v1/models')).data;
    }
    version.value = state.version;
    canKillExecutor.value = state.can_kill_executor;
    server.value = state.server;
    connectionProblem.value = '';
    credentialProblem.value = '';
    isWatched = state.server !== undefined;
    if (state.server) history.value = sampled(history.peek(), state.server, Date.now());
  } catch (error) {
    if (error instanceof TypeError) connectionProblem.value = 'The server cannot be reached.';
    else {
      reportFailure(error);
      // What the refused token let this page see.
      server.value = undefined;
    }
    isWatched = error instanceof TypeError;
  }
  clearTimeout(timer);
  if (isWatched && !document.hidden) timer = setTimeout(() => void poll(), POLL_MS);
}

/** True if the view of the server names models that the list of models does not, or the reverse. */
function hasOtherModels({ server }: PageState): boolean {
  const names = (all: readonly string[]) => all.toSorted().join('\n');
  return (
    server !== undefined && names(server.models.map(({ name }) => name)) !== names(models.peek().map(({ id }) => id))
  );
}

/** Kills the executor of the demo. */
export async function killExecutor(): Promise<void> {
  await json('rocmforge/kill-executor', '{}');
}
