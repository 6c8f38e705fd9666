// A thread that turns constraints into grammars. It is started by `GrammarThreads`.
import { parentPort, workerData } from 'node:worker_threads';
import { grammarBuffer } from '../../lib/grammar/grammar-buffer.js';
import { RocmForgeError } from '../../shared/errors.js';
import { type GivenConstraint, grammarOf } from '../constraints/grammar-of.js';
import type { ThreadMessage } from '../threads/worker-pool.js';
import type { GrammarThread } from './grammar-threads.js';
import { warmUp } from './grammar-warm-up.js';

const port = parentPort as NonNullable<typeof parentPort>;
const { names, isEarly } = workerData as GrammarThread;

type Message = ThreadMessage<Uint8Array>;
type Failure = Omit<Extract<Message, { event: 'failed' }>, 'event'>;

port.on('message', (constraint: GivenConstraint) => {
  try {
    port.postMessage({ event: 'done', output: grammarBuffer(grammarOf(constraint, names)) } satisfies Message);
  } catch (error) {
    const { message } = error as Error;
    const failure: Failure =
      error instanceof RocmForgeError
        ? { reason: error.reason, message, metadata: error.metadata }
        : { reason: 'INTERNAL', message: `a constraint cannot be compiled into a grammar: ${message}`, metadata: {} };
    port.postMessage({ event: 'failed', ...failure } satisfies Message);
  }
});
if (isEarly) warmUp(names);
