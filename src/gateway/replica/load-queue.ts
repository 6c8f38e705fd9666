import type { Logger } from '../../shared/log.js';
import type { SupervisorState } from './link/supervision.js';
import { POLL_MS } from './model-loading.js';

/** A model whose executors take a place while any of them lives. */
export interface PlacedModel {
  readonly name: string;
  /** Generations under way, those in its queue included. */
  active(): number;
  /** States of its executors. */
  states(): readonly SupervisorState[];
  /** Starts executors where there are none. */
  load(): void;
  /** Ends executors that have nothing to do. @returns true if all have ended, or will */
  unload(): boolean;
}

/** A wait until a model may be loaded. */
export interface LoadWish {
  /** True if it may: its executors are being started, or were. */
  readonly isGranted: boolean;
  /** Ends the wait. */
  end(): void;
}

/**
 * Limits how many models are loaded at once. A model that is to be loaded beyond that waits, first come, first served, until the
 * least recently used of the others that have nothing to do is unloaded. A model with running or queued requests stays. One that no
 * request waits for leaves the queue.
 */
export class LoadQueue {
  private readonly places: ModelPlace[] = [];
  private waiting: ModelPlace[] = [];
  private timer: NodeJS.Timeout | undefined;
  private uses = 0;
  /** The model that was unloaded last for another. */
  private victim: ModelPlace | undefined;
  private isClosed = false;

  /** @param most models that are loaded at once, at least 1 */
  constructor(
    private readonly most: number,
    private readonly log: Logger,
  ) {}

  /** @param isLoaded true if its executors are started with the gateway */
  add(model: PlacedModel, isLoaded: boolean): ModelPlace {
    const place = new ModelPlace(model, this, isLoaded);
    this.places.push(place);
    return place;
  }

  /** Grants nothing any more. */
  close(): void {
    this.isClosed = true;
    this.waiting = [];
    this.stopTimer();
  }

  /** The next number of a use: the higher, the later. */
  nextUse(): number {
    this.uses += 1;
    return this.uses;
  }

  has(place: ModelPlace): boolean {
    return this.waiting.includes(place);
  }

  enter(place: ModelPlace): void {
    if (this.isClosed) return;
    if (!this.has(place)) this.waiting.push(place);
    this.advance();
  }

  private advance(): void {
    for (;;) {
      this.waiting = this.waiting.filter((place) => place.isWanted);
      const [next] = this.waiting;
      if (next === undefined) {
        this.stopTimer();
        return;
      }
      const others = this.places.filter((place) => place !== next && place.isHolding);
      if (others.length >= this.most) {
        this.makeRoom(next, others);
        this.timer ??= setInterval(() => this.advance(), POLL_MS);
        return;
      }
      this.waiting = this.waiting.slice(1);
      this.victim = undefined;
      next.grant();
    }
  }

  private makeRoom(next: ModelPlace, others: readonly ModelPlace[]): void {
    if (others.some(({ isGranted }) => !isGranted)) return;
    const [victim] = others.filter(({ isIdle }) => isIdle).sort((a, b) => a.usedAt - b.usedAt);
    if (victim === undefined) return;
    if (victim !== this.victim) {
      this.log.info(
        { model: victim.model.name, next: next.model.name },
        'the model is unloaded to make room for another',
      );
    }
    this.victim = victim;
    if (victim.model.unload()) next.roomIsMade();
  }

  private stopTimer(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

/** The place of one model in a {@link LoadQueue}. */
export class ModelPlace {
  /** See {@link LoadQueue.nextUse}. */
  usedAt = 0;
  private wishes = 0;
  /** It will probably be used, and another model is being unloaded for it. */
  private isExpected = false;
  private hasRoom = false;

  constructor(
    readonly model: PlacedModel,
    private readonly queue: LoadQueue,
    /** True from when it may be loaded until its executors are being ended. */
    public isGranted: boolean,
  ) {}

  /** True if it waits to be loaded. */
  get isWaiting(): boolean {
    return this.queue.has(this);
  }

  /** True if a request or a command waits for it. */
  get isWanted(): boolean {
    return this.wishes > 0 || this.model.active() > 0 || this.isExpected;
  }

  /** True while some executor has memory, or is about to. */
  get isHolding(): boolean {
    return this.isGranted || !this.isGone(['unloaded', 'stopped']);
  }

  /** True if all its executors can be ended, and no request waits for them. */
  get isIdle(): boolean {
    return this.wishes === 0 && this.model.active() === 0 && this.isGone(['serving', 'failed', 'unloaded', 'stopped']);
  }

  /** A generation has come. Loads the model, at once or when it is its turn. */
  request(): void {
    this.used();
    if (this.isGranted) this.model.load();
    else this.queue.enter(this);
  }

  /** A generation will probably come. Loads the model unless a model that has something to do would have to be waited for. */
  expect(): void {
    if (this.isWaiting) return;
    this.hasRoom = false;
    this.wish().end();
    this.isExpected = this.hasRoom;
  }

  /** Waits for the model to be loadable, and loads it then. */
  wish(): LoadWish {
    const place = this;
    this.wishes += 1;
    this.request();
    return {
      get isGranted() {
        return place.isGranted;
      },
      end: () => {
        this.wishes -= 1;
      },
    };
  }

  /** It is in use, or was until now. */
  used(): void {
    this.usedAt = this.queue.nextUse();
  }

  grant(): void {
    this.isGranted = true;
    this.isExpected = false;
    this.model.load();
  }

  /** Another model is being unloaded for it. */
  roomIsMade(): void {
    this.hasRoom = true;
  }

  /** The state of one of its executors has changed. */
  heard(): void {
    if (this.isGone(['unloading', 'unloaded', 'stopped'])) this.isGranted = false;
  }

  private isGone(states: readonly SupervisorState[]): boolean {
    return this.model.states().every((state) => states.includes(state));
  }
}
