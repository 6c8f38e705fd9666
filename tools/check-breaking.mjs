// True if the public API still is what each release of it was: who was compiled against one goes on.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const buf = path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), 'node_modules', '.bin', 'buf');
/** Descriptors of the public package as each release had it; what is in none, as the executor's protocol, may change. */
const RELEASED = 'proto/released';

/**
 * Breaking changes of an earlier release's public API, a sentence for each release that they break.
 *
 * @param {string} root the folder of buf.yaml and proto/
 * @returns {string[]}
 */
export function breakingComplaints(root) {
  const releases = readdirSync(path.join(root, RELEASED));
  if (releases.length === 0) return [`${RELEASED} holds no release to compare with`];
  return releases.flatMap((release) => {
    const args = ['breaking', '--against', path.join(RELEASED, release)];
    const { status, stdout, stderr, error } = spawnSync(buf, args, { cwd: root, encoding: 'utf8' });
    if (status === 0) return [];
    return [`the public API breaks clients of ${release}:\n${stdout ?? ''}${stderr ?? ''}${error ?? ''}`.trim()];
  });
}
