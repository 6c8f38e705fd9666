import { LoadModelRequest } from './generated/rocmforge/executor/v1/executor.js';

/** Load that a process will be asked for which is to follow an executor. */
export interface Rehearsal {
  /** Target of the kernels on the executor's device. */
  readonly target: string;
  readonly load: LoadModelRequest;
}

/** One line, which goes to the standard input of the process. */
export function encodeRehearsal(target: string, load: Partial<LoadModelRequest>): string {
  const bytes = LoadModelRequest.encode(LoadModelRequest.fromPartial(load)).finish();
  return `${target} ${Buffer.from(bytes).toString('base64')}`;
}

export function decodeRehearsal(line: string): Rehearsal {
  const [target, load] = line.split(' ') as [string, string];
  return { target, load: LoadModelRequest.decode(Buffer.from(load, 'base64')) };
}
