import type { Protocol } from './protocol.js';
import { VLLM_ENGINE } from './vllm-engine.js';
import { VLLM_INFERENCE } from './vllm-inference.js';

/** A protocol of which neither messages nor options are known here. */
type AnyProtocol = Protocol<object, unknown>;

/** The other protocols in which generations are asked for, by their services' names. */
export const PROTOCOLS: ReadonlyMap<string, AnyProtocol> = new Map(
  [VLLM_INFERENCE as unknown as AnyProtocol, VLLM_ENGINE as unknown as AnyProtocol].map((protocol) => [
    protocol.service,
    protocol,
  ]),
);
