// A thread that turns constraints into grammars. It is started by `GrammarThreads`.
import { parentPort, workerData } from 'node:worker_threads';
import { grammarBuffer } from '../../lib/grammar/grammar-buffer.js';
import { RocmForgeError } from '../../shared/errors.js';
import { type GivenConstraint, grammarOf } from '../constraints/grammar-of.js';
import type { GrammarThread, MadeGrammar } from './grammar-threads.js';
import { warmUp } from './grammar-warm-up.js';

const port = parentPort as NonNullable<typeof parentPort>;
const { names, isEarly } = workerData as GrammarThread;

function made(constraint: GivenConstraint): MadeGrammar {
  try {
    return { buffer: grammarBuffer(grammarOf(constraint, names)) };
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof RocmForgeError) return { reason: error.reason, message, metadata: error.metadata };
    return { reason: 'INTERNAL', message: `a constraint cannot be compiled into a grammar: ${message}`, metadata: {} };
  }
}

port.on('message', (constraint: GivenConstraint) => port.postMessage(made(constraint)));
if (isEarly) warmUp(names);
