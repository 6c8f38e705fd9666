export type * from '../shared/generated/rocmforge/v1/inference.js';
export { FinishReason, ToolChoiceMode } from '../shared/generated/rocmforge/v1/inference.js';
export {
  type CallOptions,
  type GenerateStreamEvent,
  RocmForgeClient,
  type RocmForgeClientOptions,
} from './client.js';
export { type ClientErrorDetails, type GrpcCode, RocmForgeClientError } from './error.js';
