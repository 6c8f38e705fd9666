import {
  type Server,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import {
  type HealthCheckRequest,
  type HealthCheckResponse,
  type HealthListResponse,
  HealthService,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../generated/grpc/health/v1/health.js';

/** The full name of the health protocol's service. */
export const HEALTH_SERVICE = 'grpc.health.v1.Health';
/**
 * Of a gateway: SERVING while it answers at all, whatever it can serve. Not of an executor, which answers while a launch hangs.
 */
export const LIVENESS = 'liveness';

/**
 * The standard health protocol (grpc/grpc `doc/health-checking.md`) for a fixed set of services, all of which become ready and
 * unready together.
 *
 * Not `grpc-health-check`: it reads its messages from text at each import, with a second protobuf library, which took a
 * fifth of an executor's start, and a start is most of a recovery.
 */
export class Health {
  private isServing = false;
  private readonly names: readonly string[];
  private readonly watchers = new Set<() => void>();

  /**
   * @param services full names; `""`, the server as a whole, is always among them
   * @param alwaysServing names that are SERVING whatever the services are
   */
  constructor(
    services: readonly string[],
    private readonly alwaysServing: readonly string[] = [],
  ) {
    this.names = ['', ...services, ...alwaysServing];
  }

  /** Says whether requests are served. Those who watch hear of changes alone. */
  setServing(serving: boolean): void {
    if (serving === this.isServing) return;
    this.isServing = serving;
    for (const tell of this.watchers) tell();
  }

  addTo(server: Server): void {
    server.addService(HealthService, {
      check: (
        { request }: ServerUnaryCall<HealthCheckRequest, HealthCheckResponse>,
        done: sendUnaryData<HealthCheckResponse>,
      ) => {
        if (this.names.includes(request.service)) return done(null, { status: this.statusOf(request.service) });
        // What was asked for is not repeated: it may be longer than a status has room for.
        done({ code: status.NOT_FOUND, details: `no such service; known: ${this.names.slice(1).join(', ')}` });
      },
      watch: (call: ServerWritableStream<HealthCheckRequest, HealthCheckResponse>) => {
        if (!this.names.includes(call.request.service)) {
          call.write({ status: ServingStatus.SERVICE_UNKNOWN });
          return;
        }
        const { service } = call.request;
        const tell = () => call.write({ status: this.statusOf(service) });
        // Those who watch hear of changes alone, and of these there are none.
        if (!this.alwaysServing.includes(service)) this.watchers.add(tell);
        call.on('close', () => this.watchers.delete(tell));
        call.on('cancelled', () => this.watchers.delete(tell));
        tell();
      },
      list: (_call: unknown, done: sendUnaryData<HealthListResponse>) => {
        done(null, { statuses: Object.fromEntries(this.names.map((name) => [name, { status: this.statusOf(name) }])) });
      },
    });
  }

  private statusOf(name: string): ServingStatus {
    return this.isServing || this.alwaysServing.includes(name) ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }
}
