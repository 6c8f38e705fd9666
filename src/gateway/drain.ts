import { RocmForgeError } from '../shared/errors.js';
import type { Logger } from '../shared/log.js';
import type { PublicServer } from './api/grpc/public-server.js';
import type { HttpServer } from './api/http/http-server.js';
import type { HostedModels } from './hosted-models.js';

const POLL_MS = 50;
/** Time that connections without calls may take to end, and that cut ones may take to receive it. */
const FLUSH_MS = 1000;

/** Servers that a drain ends, in this order. */
export interface Drained {
  readonly models: Pick<HostedModels, 'announceEnd' | 'stopAdmission' | 'endAll' | 'active' | 'accepted'>;
  readonly server: Pick<PublicServer, 'shutDown'> & { readonly calls: Pick<PublicServer['calls'], 'unansweredCalls'> };
  readonly httpServer: Pick<HttpServer, 'announceEnd' | 'shutDown' | 'unanswered'> | undefined;
  /** Tells who watches whether requests are taken. */
  readonly showHealth: () => void;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/**
 * Takes no more requests, and returns when those under way have ended, or when the time is over: then they end with `SHUTTING_DOWN`. Logs how
 * many streams there are at the start, and at the end how many of them, and of those that came meanwhile, were cut.
 *
 * @param timeoutMs time that streams have to end, after the delay
 * @param delayMs for so long requests are still taken
 * @returns whether all ended by themselves
 */
export async function drain(
  { models, server, httpServer, showHealth, log }: Drained,
  timeoutMs: number,
  delayMs: number,
): Promise<boolean> {
  const startedAt = performance.now();
  const { active: streams, accepted } = models;
  log.info({ streams, timeoutMs, delayMs }, 'draining: waiting for streams to end');
  models.announceEnd();
  httpServer?.announceEnd();
  showHealth();
  let leaving: Promise<unknown> | undefined;
  const leave = () => (leaving ??= Promise.all([server.shutDown(), httpServer?.shutDown()]));
  if (delayMs > 0) {
    await passed(delayMs);
    // Nobody new can come. Who came just now, with a request that is still on its way, is served.
    void leave();
  } else {
    models.stopAdmission();
  }
  // An answer that its reader has not taken is not given yet, though nothing is computed for it any more.
  const unanswered = (): number => server.calls.unansweredCalls + (httpServer?.unanswered ?? 0);
  const isBusy = (): boolean => models.active > 0 || unanswered() > 0;
  const counts = (cut: number) => ({
    ...{ ended: streams + models.accepted - accepted - cut, cut },
    durationMs: Math.round(performance.now() - startedAt),
  });
  const isDone = async (withinMs: number): Promise<boolean> => {
    const deadline = performance.now() + withinMs;
    while (isBusy() && performance.now() < deadline) await passed(POLL_MS);
    return !isBusy();
  };
  if (await isDone(timeoutMs)) {
    // The system has the last bytes of the streams, and connections end in order if their clients let them.
    await Promise.race([leave(), passed(FLUSH_MS)]);
    log.info(counts(0), 'drained: all streams ended by themselves');
    return true;
  }
  models.stopAdmission();
  // Before they are cut. A response that is not read to its end may belong to a stream that has ended.
  log.warn(
    { ...counts(models.active), unansweredRequests: unanswered() },
    'drain timed out: the remaining streams are cut',
  );
  const why = 'this gateway is shutting down, and the time for streams to end is over';
  models.endAll(new RocmForgeError('SHUTTING_DOWN', why));
  await isDone(FLUSH_MS);
  return false;
}

const passed = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
