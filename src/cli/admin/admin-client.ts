import { credentials, type ServiceError } from '@grpc/grpc-js';
import { RocmForgeError } from '../../shared/errors.js';
import {
  AdminServiceClient,
  type GetReportResponse,
  type ModelStatus,
  type Settings,
} from '../../shared/generated/rocmforge/admin/v1/admin.js';
import { fromServiceError } from '../../shared/grpc/status.js';
import { unreachable } from '../common/unreachable.js';

/** Gateways' answers with metrics and faults are larger than gRPC takes by default. */
const MOST_REPORT_BYTES = 32 << 20;

/** Connection of operators to a gateway. */
export class AdminClient {
  private readonly client: AdminServiceClient;

  /**
   * @param address of a gateway's `--admin-listen`, `unix:PATH`
   * @throws RocmForgeError `INVALID_OPTION`
   */
  constructor(private readonly address: string) {
    if (!address.startsWith('unix:')) {
      throw new RocmForgeError(
        'INVALID_OPTION',
        `"${address}" is not the address of a gateway's --admin-listen; use unix:PATH`,
      );
    }
    this.client = new AdminServiceClient(address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MOST_REPORT_BYTES,
    });
  }

  /** @throws RocmForgeError the gateway's; `GATEWAY_UNAVAILABLE` where none answers */
  settings(): Promise<Settings> {
    return this.ask<{ settings?: Settings | undefined }>((done) => this.client.getSettings({}, done)).then(
      ({ settings = {} }) => settings,
    );
  }

  /** @throws RocmForgeError as {@link settings}; `INVALID_FIELD` */
  update(settings: Settings): Promise<Settings> {
    return this.ask<{ settings?: Settings | undefined }>((done) => this.client.updateSettings({ settings }, done)).then(
      ({ settings: now = {} }) => now,
    );
  }

  /** Waits until all are replaced. @returns executors started so far. @throws RocmForgeError as {@link settings} */
  replaceExecutors(): Promise<number> {
    return this.ask<{ executors: number }>((done) => this.client.replaceExecutors({}, done)).then(
      ({ executors }) => executors,
    );
  }

  /** @throws RocmForgeError as {@link settings} */
  models(): Promise<readonly ModelStatus[]> {
    return this.ask<{ models: readonly ModelStatus[] }>((done) => this.client.listModels({}, done)).then(
      ({ models }) => models,
    );
  }

  /** Waits until the model is loaded. @throws RocmForgeError as {@link settings}; `MODEL_NOT_FOUND`, or why it cannot be loaded */
  async loadModel(model: string): Promise<void> {
    await this.ask((done) => this.client.loadModel({ model }, done));
  }

  /** Waits until the model is unloaded. @throws RocmForgeError as {@link loadModel} */
  async unloadModel(model: string): Promise<void> {
    await this.ask((done) => this.client.unloadModel({ model }, done));
  }

  /** @throws RocmForgeError as {@link settings} */
  report(): Promise<GetReportResponse> {
    return this.ask((done) => this.client.getReport({}, done));
  }

  close(): void {
    this.client.close();
  }

  private ask<Response>(
    call: (done: (error: ServiceError | null, response: Response) => void) => void,
  ): Promise<Response> {
    return new Promise((resolve, reject) => {
      call((error, response) => {
        if (error === null) resolve(response);
        else reject(unreachable(fromServiceError(error), this.address));
      });
    });
  }
}
