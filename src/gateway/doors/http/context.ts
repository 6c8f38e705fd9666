import type { ErrorReason } from '../../../shared/errors.js';
import type { EncodeService } from '../../request/encoding/encode-service.js';
import type { Trust } from '../../trust/trust.js';
import type { Inference } from '../inference.js';
import type { AnswerFacts } from './request.js';

/** What is told of the model, beside what answers are written with. */
export interface HttpFacts extends AnswerFacts {
  /** Its name, without its folder. */
  readonly modelFile: string;
  readonly chatTemplate: string | undefined;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly version: string;
}

/** What the routes of the HTTP door serve from. */
export interface HttpContext {
  readonly inference: Inference;
  readonly encoder: EncodeService;
  readonly trust: Trust;
  readonly facts: HttpFacts;
  /** The most sequences that run at once. */
  readonly sequences: () => number;
  /** Told of each error that is answered. */
  readonly onRefused: (reason: ErrorReason) => void;
  /** Seconds since 1970. */
  readonly started: number;
}
