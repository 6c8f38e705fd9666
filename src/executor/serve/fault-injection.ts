import { RocmForgeError } from '../../shared/errors.js';
import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';

const FAULTS = ['abort', 'exit', 'hang', 'sticky'] as const;

/** Kinds of planted faults: the process aborts, exits, never answers the step, or the device reports a sticky error. */
export type Fault = (typeof FAULTS)[number];

/** A fault that is planted for tests: it happens in every step that computes the given token id of a prompt. */
export interface PlantedFault {
  readonly fault: Fault;
  /** Absent: every step. */
  readonly tokenId?: number;
}

/** Parses `abort`, or `abort@42`. @throws RocmForgeError `INVALID_OPTION` */
export function parseFault(text: string): PlantedFault {
  const [fault, tokenId] = text.split('@');
  const known = FAULTS.find((candidate) => candidate === fault);
  if (known === undefined)
    throw new RocmForgeError('INVALID_OPTION', `unknown fault "${text}"; allowed: ${FAULTS.join(', ')}`);
  return tokenId === undefined ? { fault: known } : { fault: known, tokenId: Number(tokenId) };
}

/** Makes planted faults happen. Knows which slots hold the poison; has no part in what is computed. */
export class FaultInjector {
  private readonly poisoned = new Set<number>();

  constructor(private readonly planted: PlantedFault) {}

  /** Called before a step runs. Resolves when the step may; throws, ends the process or never resolves otherwise. */
  async before(step: ExecuteRequest): Promise<void> {
    const { fault, tokenId } = this.planted;
    for (const slot of step.closes) this.poisoned.delete(slot);
    for (const { slot, tokenIds } of step.opens) {
      const ids = new Uint32Array(Uint8Array.from(tokenIds).buffer);
      if (tokenId !== undefined && ids.includes(tokenId)) this.poisoned.add(slot);
    }
    if (tokenId !== undefined && !step.slices.some(({ slot }) => this.poisoned.has(slot))) return;
    if (fault === 'hang') await new Promise(() => undefined);
    if (fault === 'sticky') throw Object.assign(new Error('planted: illegal address'), { sticky: true });
    process.stderr.write('Memory access fault by GPU node-1 (planted)\n');
    if (fault === 'abort') process.abort();
    process.exit(1);
  }
}
