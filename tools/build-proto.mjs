// Generates the TypeScript of proto/ and protocols/ into src/shared/generated and the descriptor set that gRPC reflection serves.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const buf = path.join(root, 'node_modules', '.bin', 'buf');
const generated = path.join(root, 'src', 'shared', 'generated');
const descriptors = path.join(root, 'build', 'proto');

rmSync(generated, { recursive: true, force: true });
mkdirSync(generated, { recursive: true });
const generate = (...args) => execFileSync(buf, ['generate', ...args], { cwd: root, stdio: 'inherit' });
generate('proto', '--include-imports', '--include-wkt');
generate('protocols', '--template', 'buf.gen.protocols.yaml');

// All that is public: what gateway and executor say to each other is nobody else's, and what operators say is on another address.
mkdirSync(descriptors, { recursive: true });
execFileSync(
  buf,
  [
    ...['build', '--as-file-descriptor-set', '--exclude-source-info'],
    ...['--exclude-path', 'proto/rocmforge/executor', '--exclude-path', 'proto/rocmforge/admin'],
    ...['-o', path.join(descriptors, 'descriptors.binpb')],
  ],
  { cwd: root, stdio: 'inherit' },
);
