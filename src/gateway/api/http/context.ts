import type { Registry } from 'prom-client';
import type { ErrorReason } from '../../../shared/errors.js';
import type { Logger } from '../../../shared/log.js';
import type { Trust } from '../../trust/trust.js';
import type { Models, OfferedModel } from '../models.js';
import type { IgnoredFieldLog } from './field-policy.js';
import type { KeptStreams } from './kept-streams.js';
import type { ModelPull } from './ollama/ollama-pull.js';
import type { ResponseStore } from './openai/responses-store.js';
import type { ServerState } from './page/server-state.js';
import type { AnswerFacts, FormDefaults } from './request.js';

/** Facts about the model, in addition to those that answers are written with. */
export interface HttpFacts extends AnswerFacts {
  /** Its name, without its folder. */
  readonly modelFile: string;
  readonly chatTemplate: string | undefined;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly version: string;
  /** Other names by which requests may call it, and what is said of it. */
  readonly aliases: readonly string[];
  readonly tags: readonly string[];
  /** The seed of requests that give none; absent: one is drawn for each. */
  readonly seed: bigint | undefined;
}

/** Dependencies of the HTTP server's routes. */
export interface HttpContext {
  readonly models: Models;
  /** Facts about each of them. */
  readonly factsOf: (model: OfferedModel) => HttpFacts;
  readonly trust: Trust;
  readonly log: Logger;
  /** Optional routes. */
  readonly shows: { readonly page: boolean; readonly slots: boolean };
  /** Limit of the models that are loaded at once, and whether a request loads the one that it names. */
  readonly loading: { readonly maxModels: number; readonly isOnRequest: boolean };
  /** The server's state for the page; absent: the page has no server view. */
  readonly serverState: (() => Promise<ServerState>) | undefined;
  /** Kills the executor, for the demo on this machine; absent everywhere else. */
  readonly killExecutor: (() => void) | undefined;
  /** llama.cpp's metrics; absent: they are switched off. */
  readonly llamaMetrics: Registry | undefined;
  readonly defaults: FormDefaults;
  readonly ignoredFields: IgnoredFieldLog;
  readonly responses: ResponseStore;
  readonly streams: KeptStreams;
  /** Downloads models; absent: downloads are disabled. */
  readonly pullModel: ModelPull | undefined;
  /** Told of each error that is answered. */
  readonly onRefused: (reason: ErrorReason) => void;
  /** Seconds since 1970. */
  readonly started: number;
}
