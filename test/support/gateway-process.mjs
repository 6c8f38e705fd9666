// A gateway in a process of its own, with options that the command line does not have: `gateway-process.mjs OPTIONS_JSON`.
// Prints `serving` when it serves. On SIGUSR2 it collects its garbage (--expose-gc) and prints what calls and connections it
// has.
import { startGateway } from '../../dist/gateway/main.js';

const gateway = await startGateway(JSON.parse(process.argv[2]));
process.on('SIGUSR2', () => {
  globalThis.gc?.();
  const { calls, connections } = gateway.server;
  const counts = {
    calls: calls.openCalls,
    ...calls.counters,
    connections: connections.open,
    closed: connections.counters.closed,
  };
  process.stdout.write(`${JSON.stringify(counts)}\n`);
});
process.on('SIGTERM', () => void gateway.stop().then(() => process.exit(0)));
process.stdout.write('serving\n');
