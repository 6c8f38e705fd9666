// Generates the TypeScript of proto/ and protocols/ into src/shared/generated and the descriptor set that gRPC reflection serves.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const buf = path.join(root, 'node_modules', '.bin', 'buf');
const generated = path.join(root, 'src', 'shared', 'generated');

rmSync(generated, { recursive: true, force: true });
mkdirSync(generated, { recursive: true });
const generate = (...args) => execFileSync(buf, ['generate', ...args], { cwd: root, stdio: 'inherit' });
generate('proto', '--include-imports', '--include-wkt');
generate('protocols', '--template', 'buf.gen.protocols.yaml');
