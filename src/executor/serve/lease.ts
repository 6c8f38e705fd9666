import { RocmForgeError } from '../../shared/errors.js';
import type { StallTolerantClock } from '../../shared/stall-tolerant-clock.js';

/**
 * Whose executor this is. The gateway that loads a model has it until it gives it up, or until nothing was heard of it for
 * the lease: two gateways that took it from each other would compute every stream again and again.
 */
export class Lease {
  private holder: bigint | undefined;
  private heardAt = 0;

  /**
   * @param leaseMs how long a silent gateway keeps it
   * @param clock of this process: while it did not run it could not hear anybody
   */
  constructor(
    private readonly leaseMs: number,
    private readonly clock: StallTolerantClock,
  ) {}

  /**
   * @throws RocmForgeError `EXECUTOR_BUSY` with the time after which the holder, should it stay silent, has lost it
   * @returns whether it was not this gateway's before
   */
  take(gateway: bigint): boolean {
    const leftMs = this.heardAt + this.leaseMs - this.clock.nowMs;
    if (this.holder !== undefined && this.holder !== gateway && leftMs > 0) {
      throw new RocmForgeError('EXECUTOR_BUSY', 'another gateway has this executor', {
        retry_delay_ms: String(Math.ceil(leftMs)),
      });
    }
    const isNew = this.holder !== gateway;
    this.holder = gateway;
    this.heard();
    return isNew;
  }

  /** The holder has sent something. */
  heard(): void {
    this.heardAt = this.clock.nowMs;
  }

  /** The holder is done with it. */
  giveUp(): void {
    this.holder = undefined;
  }
}
