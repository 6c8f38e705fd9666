export interface Mutation {
  readonly name: string;
  readonly file: string;
  readonly target: string;
  readonly says: string;
}
export type Importers = ReadonlyMap<string, readonly { readonly by: string; readonly costs: number }[]>;
export function mutationsOf(root: string): readonly Mutation[];
export function importersOf(root: string): Importers;
export function distancesFrom(importers: Importers, changed: string): ReadonlyMap<string, number>;
