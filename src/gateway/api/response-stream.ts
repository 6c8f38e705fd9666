import type { RocmForgeError } from '../../shared/errors.js';
import type { GenerateStreamResponse } from '../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress } from '../request/generation.js';

/** Where a server writes a generation's messages: one client's stream. */
export interface ResponseStream<Message = GenerateStreamResponse> {
  /** Its reader is behind: what is written waits in memory. */
  readonly writableNeedDrain: boolean;
  /** Tells once that the reader has caught up. */
  onceDrained(tell: () => void): void;
  /** What is continued, before anything is written; for protocols whose answers say so. */
  begin?(promptIds: Uint32Array): void;
  /** How far the prompt has come, before anything is written; for protocols that tell it. */
  progress?(requestId: string, progress: PromptProgress): void;
  /** @throws what cannot be encoded */
  write(message: Message): void;
  /** All has been written. */
  end(): void;
  /** Nothing more comes, and why. */
  fail(error: RocmForgeError): void;
}
