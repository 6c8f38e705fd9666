/** Messages between executors and the keeper of a GPU's memory: a line of JSON each, answered in order. */

/** A range of one device's memory that the keeper has allocated. */
export interface Chunk {
  readonly device: number;
  readonly name: string;
  readonly bytes: number;
  /** By which another process imports it, as base64. */
  readonly handle: string;
}

export type KeeperRequest =
  /** Asks for the keeper's state. */
  | { readonly do: 'list' }
  /** A chunk of this name; the one that is there if it has that size. Its content is 0 at first. */
  | { readonly do: 'allocate'; readonly device: number; readonly name: string; readonly bytes: number }
  | { readonly do: 'note'; readonly key: string; readonly value: string };

export interface KeeperState {
  /** The keeper's process id. */
  readonly pid: number;
  /** Identity of the memory, as decimal digits. */
  readonly identity: string;
  readonly chunks: readonly Chunk[];
  readonly notes: Readonly<Record<string, string>>;
}

export type KeeperAnswer =
  | { readonly state: KeeperState }
  | { readonly chunk: Chunk }
  | { readonly noted: true }
  | { readonly error: string };
