export interface KernelNumbers {
  readonly name: string;
  readonly wave: number;
  readonly vgprs: number;
  readonly sgprs: number;
  readonly lds: number;
  readonly scratch: number;
  readonly vgprSpills: number;
}
export interface Manifest {
  readonly target: string;
  readonly compiler: string;
  readonly files: readonly { readonly kernels: readonly KernelNumbers[] }[];
}
export function occupancy(
  target: string,
  kernel: Pick<KernelNumbers, 'vgprs' | 'lds'>,
): { readonly blocks: number; readonly waves: number; readonly bound: string };
export function complaints(manifest: Manifest): string[];
export function registerTable(manifest: Manifest): string[];
