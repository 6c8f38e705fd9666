/**
 * A fake executor as a process of its own:
 *
 *     fake-executor-process.js '{"listen": "unix:/tmp/fake.sock", "stepMs": 1, "kvBlocks": 4096, "vocabulary": {...}}'
 *
 * Prints `listening` when a gateway may attach, and the steps and rows so far each time it is sent SIGUSR2.
 * A broken rule ends it with code 1.
 */
import { FakeExecutor, type FakeExecutorOptions } from './fake-executor.js';

const options = JSON.parse(process.argv[2] ?? '{}') as FakeExecutorOptions & { readonly listen: string };
const executor = new FakeExecutor(options);
await executor.listen(options.listen);
process.stdout.write('listening\n');
process.on('SIGUSR2', () => {
  process.stdout.write(`${JSON.stringify({ steps: executor.device?.steps ?? 0, rows: executor.device?.rows ?? 0 })}\n`);
});
setInterval(() => {
  if (executor.failure === undefined) return;
  process.stderr.write(`${executor.failure.stack}\n`);
  process.exit(1);
}, 100);
process.on('SIGTERM', () => process.exit(0));
