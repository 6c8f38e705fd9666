import { chmodSync } from 'node:fs';
import { Server, type sendUnaryData } from '@grpc/grpc-js';
import { RocmForgeError } from '../../../shared/errors.js';
import {
  type AdminServiceServer,
  AdminServiceService,
  type GetReportResponse,
  type ModelStatus,
  type Settings,
} from '../../../shared/generated/rocmforge/admin/v1/admin.js';
import { bind, SERVER_OPTIONS } from '../../../shared/grpc/server.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { strictService } from '../../../shared/grpc/strict.js';
import { type Logger, logLevel, setLogLevel } from '../../../shared/log.js';
import { LOG_LEVELS, type LogLevel } from '../../../shared/log-levels.js';
import type { QueueLimits } from '../../replica/queue-limits.js';

/** Limits of a queue that may change while it is used. */
export type ChangeableLimits = { -readonly [Name in keyof QueueLimits]: QueueLimits[Name] };

/** State that operators may see and change. */
export interface Administered {
  /** Limits of each replica's queue, the same for all; a change applies from the next request on. */
  readonly limits: readonly ChangeableLimits[];
  /** Ends one executor after the other and starts another in its place. @returns executors started so far */
  replaceExecutors(): Promise<number>;
  models(): readonly ModelStatus[];
  /** Resolves when it is loaded. @throws RocmForgeError `MODEL_NOT_FOUND`, or why it cannot be */
  loadModel(name: string): Promise<ModelStatus>;
  /** Resolves when it is unloaded. @throws RocmForgeError as {@link loadModel} */
  unloadModel(name: string): Promise<ModelStatus>;
  /** All of a report but the settings. */
  report(): Promise<Omit<GetReportResponse, 'settings'>>;
}

/** An open address for operators. */
export interface AdminServer {
  stop(): void;
}

const MOST_REQUEST_BYTES = 4096;
const OWNER_ALONE = 0o600;

/**
 * Serves operators. On a socket file alone, which is its owner's: who may inference is not who may administer, and no
 * certificate or token here says which of the two somebody is.
 *
 * @param address `unix:PATH`
 * @throws RocmForgeError `INVALID_OPTION` for another address, `ADDRESS_IN_USE`
 */
export async function openAdminServer(address: string, administered: Administered, log: Logger): Promise<AdminServer> {
  if (!address.startsWith('unix:')) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `--admin-listen ${address}: only socket files are allowed, unix:PATH, whose permissions control access`,
    );
  }
  const server = new Server({ ...SERVER_OPTIONS, 'grpc.max_receive_message_length': MOST_REQUEST_BYTES });
  server.addService(strictService(AdminServiceService), adminHandlers(administered, log));
  // A connection from before the file belongs to the owner alone is rejected.
  let isGuarded = false;
  const listener = await bind(server, address, { admit: () => isGuarded });
  chmodSync(address.slice('unix:'.length), OWNER_ALONE);
  isGuarded = true;
  return {
    stop: () => {
      listener.close();
      server.forceShutdown();
    },
  };
}

function adminHandlers(administered: Administered, log: Logger): AdminServiceServer {
  const { limits, replaceExecutors, report } = administered;
  return {
    getSettings: (_call, callback) => callback(null, { settings: settingsOf(limits) }),
    updateSettings: (call, callback) =>
      answer(callback, async () => {
        const given = call.request.settings ?? {};
        const before = settingsOf(limits);
        // All of it is looked at before any of it is done.
        const level = levelOf(given.logLevel);
        const changed = limitsOf(given);
        if (level !== undefined) setLogLevel(level);
        for (const ofOne of limits) Object.assign(ofOne, changed);
        const settings = settingsOf(limits);
        log.warn({ before, now: settings }, 'changed settings (admin request)');
        return { settings };
      }),
    replaceExecutors: (_call, callback) =>
      answer(callback, async () => {
        log.warn('replacing executors (admin request)');
        return { executors: await replaceExecutors() };
      }),
    listModels: (_call, callback) => callback(null, { models: [...administered.models()] }),
    loadModel: ({ request: { model } }, callback) =>
      answer(callback, async () => {
        log.warn({ model }, 'loading model (admin request)');
        return { model: await administered.loadModel(model) };
      }),
    unloadModel: ({ request: { model } }, callback) =>
      answer(callback, async () => {
        log.warn({ model }, 'unloading model (admin request)');
        return { model: await administered.unloadModel(model) };
      }),
    getReport: (_call, callback) =>
      answer(callback, async () => ({ ...(await report()), settings: settingsOf(limits) })),
  };
}

function answer<Response>(callback: sendUnaryData<Response>, work: () => Promise<Response>): void {
  work().then(
    (response) => callback(null, response),
    (error) => callback(toStatus(error), null),
  );
}

function settingsOf([limits]: readonly QueueLimits[]): Settings {
  const { maxQueuedRequests, maxQueuedTokens, maxQueuedRequestsPerPeer } = limits as QueueLimits;
  return {
    logLevel: logLevel(),
    maxQueuedRequests,
    maxQueuedTokens,
    maxQueuedRequestsPerPeer: maxQueuedRequestsPerPeer ?? maxQueuedRequests,
  };
}

function levelOf(level: string | undefined): LogLevel | undefined {
  if (level === undefined) return undefined;
  const known = LOG_LEVELS.find((one) => one === level);
  if (known !== undefined) return known;
  throw refused('log_level', `${JSON.stringify(level)} is not a level; use one of ${LOG_LEVELS.join(', ')}`);
}

function limitsOf(given: Settings): Partial<ChangeableLimits> {
  const changed: Partial<ChangeableLimits> = {};
  for (const [name, field] of [
    ['maxQueuedRequests', 'max_queued_requests'],
    ['maxQueuedTokens', 'max_queued_tokens'],
    ['maxQueuedRequestsPerPeer', 'max_queued_requests_per_peer'],
  ] as const) {
    const value = given[name];
    if (value === undefined) continue;
    if (value < 1) throw refused(field, `${value} would reject every request; use 1 or more`);
    changed[name] = value;
  }
  return changed;
}

const refused = (field: string, why: string) =>
  new RocmForgeError('INVALID_FIELD', `settings.${field}: ${why}`, { field: `settings.${field}` });
