import type { RocmForgeError } from '../../shared/errors.js';
import type { GenerateStreamResponse } from '../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress, Recovery } from '../request/generation.js';

/** Destination of a generation's messages at a server: one client's stream. */
export interface ResponseStream<Message = GenerateStreamResponse> {
  /** Its reader is behind: what is written waits in memory. */
  readonly writableNeedDrain: boolean;
  /** Tells once that the reader has caught up. */
  onceDrained(tell: () => void): void;
  /** The continued prompt, before anything is written; for protocols whose answers include it. */
  begin?(promptIds: Uint32Array): void;
  /** Progress of the prompt, before anything is written; for protocols that report it. */
  progress?(requestId: string, progress: PromptProgress): void;
  /** Loss of the executor, or the first token afterwards; for protocols that report it. */
  recovery?(requestId: string, event: Recovery): void;
  /** @throws what cannot be encoded */
  write(message: Message): void;
  /** All has been written. */
  end(): void;
  /** Nothing more comes, and why. */
  fail(error: RocmForgeError): void;
}
