import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The path of something under `shared/`, the folder of large data beside the repository, or `undefined` where this
 * machine does not have it; then a line says what is being skipped.
 *
 * @param relative such as `data/models/stories260K-f32.gguf`
 */
export function sharedPath(relative: string): string | undefined {
  const path = fileURLToPath(new URL(`../../../shared/${relative}`, import.meta.url));
  if (existsSync(path)) return path;
  console.log(`skipped: ../shared/${relative} is not on this machine`);
  return undefined;
}
