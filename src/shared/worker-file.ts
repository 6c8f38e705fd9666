import path from 'node:path';
import { packageRoot } from './package.js';

/** @returns path of a worker thread's program. Threads run compiled JavaScript only, also where tests run this from its source */
export const workerFile = (name: 'encode-worker' | 'grammar-worker'): string =>
  path.join(packageRoot, 'dist', 'bundle', `${name}.js`);
