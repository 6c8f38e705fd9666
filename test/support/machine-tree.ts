import path from 'node:path';
import type { Machine, Ownership } from '../../src/cli/doctor/machine.js';

/** A file of a machine that is not there: its text, and who may open it. */
export interface TreeFile extends Partial<Ownership> {
  readonly text?: string;
  /** Error of opening it, whatever its mode. */
  readonly refusal?: string;
}

/** Files by absolute path; a text alone is a file that all may read. */
export type Tree = Readonly<Record<string, string | TreeFile>>;

/** A machine of these files, seen by a user who is not root. */
export function machineOf(
  tree: Tree,
  rest: Partial<Pick<Machine, 'env' | 'uid' | 'groups' | 'kernelRelease'>> = {},
): Machine {
  const { uid = 1000, groups = [1000], env = {}, kernelRelease = '6.12.0-amd64' } = rest;
  const files = new Map(
    Object.entries(tree).map(([name, file]) => [name, typeof file === 'string' ? { text: file } : file] as const),
  );
  const ownership = (name: string): Ownership | undefined => {
    const file = files.get(name);
    return file && { mode: file.mode ?? 0o644, uid: file.uid ?? 0, gid: file.gid ?? 0 };
  };
  return {
    read: (name) => files.get(name)?.text?.trim(),
    list: (folder) => {
      const below = [...files.keys()].filter((name) => name.startsWith(`${folder}/`));
      return [...new Set(below.map((name) => path.relative(folder, name).split('/')[0] as string))].sort();
    },
    ownership,
    refusal: (name) => {
      const owner = ownership(name);
      if (owner === undefined) return 'ENOENT';
      const given = files.get(name)?.refusal;
      if (given !== undefined) return given;
      const shift = owner.uid === uid ? 6 : groups.includes(owner.gid) ? 3 : 0;
      return uid === 0 || ((owner.mode >> shift) & 6) === 6 ? undefined : 'EACCES';
    },
    env,
    uid,
    groups,
    userName: 'ada',
    kernelRelease,
  };
}

const RENDER = 992;

export interface TreeCard {
  readonly version: number;
  readonly name?: string;
  readonly vramBytes?: number;
  readonly usedVramBytes?: number;
  readonly gttBytes?: number;
}

/** The files of a machine whose driver has taken these cards, and whose nodes belong to the group `render`. */
export function cardTree(...cards: readonly TreeCard[]): Record<string, string | TreeFile> {
  const nodes = '/sys/class/kfd/kfd/topology/nodes';
  const tree: Record<string, string | TreeFile> = {
    '/etc/group': `root:x:0:\nrender:x:${RENDER}:\nada:x:1000:\n`,
    '/etc/os-release': 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n',
    '/sys/module/amdgpu/initstate': 'live',
    '/dev/kfd': { mode: 0o660, gid: RENDER },
    [`${nodes}/0/properties`]: 'cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\n',
    [`${nodes}/0/name`]: '',
  };
  for (const [i, { version, name = '', vramBytes = 24e9, usedVramBytes = 1e9, gttBytes = 16e9 }] of cards.entries()) {
    const device = `/sys/class/drm/renderD${128 + i}/device`;
    Object.assign(tree, {
      [`${nodes}/${i + 1}/properties`]: `cpu_cores_count 0\nsimd_count 192\ngfx_target_version ${version}\ndrm_render_minor ${128 + i}\n`,
      [`${nodes}/${i + 1}/name`]: name,
      [`/dev/dri/renderD${128 + i}`]: { mode: 0o660, gid: RENDER },
      [`${device}/mem_info_vram_total`]: String(vramBytes),
      [`${device}/mem_info_vram_used`]: String(usedVramBytes),
      [`${device}/mem_info_gtt_total`]: String(gttBytes),
      [`/sys/bus/pci/devices/0000:0${3 + i}:00.0/vendor`]: '0x1002',
      [`/sys/bus/pci/devices/0000:0${3 + i}:00.0/class`]: '0x030000',
    });
  }
  return tree;
}
