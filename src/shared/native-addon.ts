import { createRequire } from 'node:module';
import { RocmForgeError } from './errors.js';
import { packageRoot } from './package.js';

let loaded: unknown;

/**
 * The native addon of `native/`; callers state the part of it that they use.
 *
 * @throws RocmForgeError KERNELS_INVALID where it is not built or does not load
 */
export function loadNativeAddon<Addon>(): Addon {
  if (loaded === undefined) {
    const load = createRequire(import.meta.url)('node-gyp-build') as (folder: string) => unknown;
    try {
      loaded = load(packageRoot);
    } catch (error) {
      const [why] = (error as Error).message.split('\n');
      throw new RocmForgeError(
        'KERNELS_INVALID',
        `no native addon: ${why}; run "npm run build:native"`,
        {},
        { cause: error },
      );
    }
  }
  return loaded as Addon;
}
