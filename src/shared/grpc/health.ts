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
 * Health of a gateway: SERVING unless a restart helps, whatever it can serve. Executors have none: they respond while a launch
 * hangs.
 */
export const LIVENESS = 'liveness';

/**
 * The standard health protocol (grpc/grpc `doc/health-checking.md`) for a fixed set of services, which become ready and unready
 * together but for those that are told apart.
 *
 * Not `grpc-health-check`: it reads its messages from text at each import, with a second protobuf library, which took a
 * fifth of an executor's start, and a start is most of a recovery.
 */
export class Health {
  private isServing = false;
  /** Models that serve, by name. */
  private readonly serving = new Set<string>();
  private readonly names: readonly string[];
  /** Callbacks of watchers, by service. */
  private readonly watchers = new Map<() => void, string>();

  /**
   * @param services full names; `""`, the server as a whole, is always among them
   * @param apart names that are ready by themselves
   */
  constructor(
    services: readonly string[],
    private readonly apart: readonly string[] = [],
  ) {
    this.names = ['', ...services, ...apart];
  }

  /**
   * Says whether requests are served. Those who watch hear of changes alone.
   *
   * @param name of one that is told apart; absent: all others
   */
  setServing(serving: boolean, name?: string): void {
    if (serving === (name === undefined ? this.isServing : this.serving.has(name))) return;
    if (name === undefined) this.isServing = serving;
    else if (serving) this.serving.add(name);
    else this.serving.delete(name);
    for (const [tell, service] of this.watchers) {
      if (name === undefined ? !this.apart.includes(service) : service === name) tell();
    }
  }

  addTo(server: Server): void {
    server.addService(HealthService, {
      check: (
        { request }: ServerUnaryCall<HealthCheckRequest, HealthCheckResponse>,
        done: sendUnaryData<HealthCheckResponse>,
      ) => {
        if (this.names.includes(request.service)) return done(null, { status: this.statusOf(request.service) });
        // The requested name is not repeated: it may be longer than a status has room for.
        done({ code: status.NOT_FOUND, details: `no such service; known: ${this.names.slice(1).join(', ')}` });
      },
      watch: (call: ServerWritableStream<HealthCheckRequest, HealthCheckResponse>) => {
        if (!this.names.includes(call.request.service)) {
          call.write({ status: ServingStatus.SERVICE_UNKNOWN });
          return;
        }
        const { service } = call.request;
        const tell = () => call.write({ status: this.statusOf(service) });
        this.watchers.set(tell, service);
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
    const isServing = this.apart.includes(name) ? this.serving.has(name) : this.isServing;
    return isServing ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }
}
