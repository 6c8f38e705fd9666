import { fileURLToPath } from 'node:url';

/** Threads run compiled JavaScript only; from a source file (vitest) that is the built twin under `dist/`. */
export function encodeWorkerFile(): string {
  const directory = fileURLToPath(new URL('.', import.meta.url));
  const built = import.meta.url.endsWith('.ts') ? directory.replace(/\/src\/gateway\//, '/dist/gateway/') : directory;
  return `${built}encode-worker.js`;
}
