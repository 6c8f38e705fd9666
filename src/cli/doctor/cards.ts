import type { Machine } from './machine.js';

const NODES = '/sys/class/kfd/kfd/topology/nodes';
const AMD_VENDOR = '0x1002';
/** Display controllers, and processing accelerators such as the MI300X. */
const CARD_CLASSES = /^0x(03|12)/;

/** A GPU that the kernel's compute driver knows. */
export interface Card {
  readonly node: number;
  /** Such as `gfx1100`. */
  readonly target: string;
  /** The driver's word for the chip, such as `navi31`; empty where it has none. */
  readonly name: string;
  /** `/dev/dri/renderD128`; undefined for one that has none. */
  readonly renderNode: string | undefined;
  /** Bytes of its own memory; undefined if the driver does not report them. */
  readonly vramBytes: number | undefined;
  readonly usedVramBytes: number | undefined;
  /** Bytes of main memory that it may use in addition to its own. */
  readonly gttBytes: number | undefined;
}

/** The GPUs that `/sys/class/kfd/kfd/topology` lists: no library is asked. */
export function cardsOf(machine: Machine): Card[] {
  return machine.list(NODES).flatMap((node) => {
    const properties = numbers(machine.read(`${NODES}/${node}/properties`));
    // A node without SIMDs is a processor; one that a container may not see has no properties.
    if ((properties.get('simd_count') ?? 0) === 0) return [];
    const minor = properties.get('drm_render_minor') ?? 0;
    const memory = (name: string): number | undefined => {
      const text = machine.read(`/sys/class/drm/renderD${minor}/device/${name}`);
      return text === undefined ? undefined : Number(text);
    };
    return {
      node: Number(node),
      target: targetOf(properties.get('gfx_target_version') ?? 0),
      name: machine.read(`${NODES}/${node}/name`) ?? '',
      renderNode: minor === 0 ? undefined : `/dev/dri/renderD${minor}`,
      vramBytes: memory('mem_info_vram_total') ?? localMemory(machine, `${NODES}/${node}/mem_banks`),
      usedVramBytes: memory('mem_info_vram_used'),
      gttBytes: memory('mem_info_gtt_total'),
    };
  });
}

/** AMD's cards on the PCI bus, whether a driver has taken them or not: their addresses. */
export function cardsOnBus(machine: Machine): string[] {
  const folder = '/sys/bus/pci/devices';
  return machine
    .list(folder)
    .filter(
      (address) =>
        machine.read(`${folder}/${address}/vendor`) === AMD_VENDOR &&
        CARD_CLASSES.test(machine.read(`${folder}/${address}/class`) ?? ''),
    );
}

/** The target of a `gfx_target_version`: 90402 is gfx942, 90010 gfx90a. Major, minor and step in two decimal digits each. */
export function targetOf(version: number): string {
  const [major, minor, step] = [Math.floor(version / 10_000), Math.floor(version / 100) % 100, version % 100];
  return `gfx${major}${minor.toString(16)}${step.toString(16)}`;
}

/** Bytes of the memory banks that are the card's own: heap types 1, visible to the processor, and 2. */
function localMemory(machine: Machine, folder: string): number | undefined {
  const banks = machine.list(folder).map((bank) => numbers(machine.read(`${folder}/${bank}/properties`)));
  const local = banks.filter((bank) => [1, 2].includes(bank.get('heap_type') ?? 0));
  return local.length === 0 ? undefined : local.reduce((sum, bank) => sum + (bank.get('size_in_bytes') ?? 0), 0);
}

/** Lines of a name and a number. */
function numbers(text = ''): ReadonlyMap<string, number> {
  return new Map(
    text.split('\n').map((line) => {
      const [name = '', value] = line.split(/\s+/);
      return [name, Number(value)];
    }),
  );
}
