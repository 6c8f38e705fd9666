/** A mistake that tools/mutate-kernels.mjs plants; see kernel-mutations.mjs. */
export interface Mutation {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly test: string;
  readonly with?: readonly string[];
  readonly launches?: readonly string[];
}

export const MUTATIONS: readonly Mutation[];
