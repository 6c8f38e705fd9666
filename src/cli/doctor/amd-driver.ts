import { type Card, cardsOnBus } from './cards.js';
import type { Finding } from './finding.js';
import type { Machine } from './machine.js';

const KFD = '/dev/kfd';
const SECURE_BOOT = '/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c';
export const CONTAINER_FLAGS = '--device=/dev/kfd --device=/dev/dri';

/** The kernel's part of it: the card, its driver, the device nodes and who may open them. */
export function driverFindings(machine: Machine, cards: readonly Card[]): Finding[] {
  const container = containerOf(machine);
  const onBus = cardsOnBus(machine);
  const findings: Finding[] = [];
  if (container !== undefined) findings.push({ check: 'container', state: 'info', detail: container });
  if (cards.length === 0 && onBus.length === 0 && machine.ownership(KFD) === undefined) {
    const detail = isWsl(machine)
      ? 'none: WSL has no /dev/kfd, and this was never tried over /dev/dxg; start Linux itself'
      : 'none on the bus; the host device serves';
    return [...findings, { check: 'AMD card', state: 'missing', detail }];
  }
  return [
    ...findings,
    card(machine, cards, onBus),
    driver(machine),
    ...nodes(machine, cards, container !== undefined),
    ...cards.flatMap(memory),
  ];
}

function card(machine: Machine, cards: readonly Card[], onBus: readonly string[]): Finding {
  const check = 'AMD card';
  if (cards.length > 0) {
    const told = cards.map(({ target, name }) => (name === '' ? target : `${target} (${name})`));
    return { check, state: 'ok', detail: told.join(', ') };
  }
  if (machine.list('/sys/module/amdgpu').length === 0) {
    return { check, state: 'failed', detail: `${onBus.length} on the bus, and no driver has taken it` };
  }
  // The compute driver passes over cards without PCIe atomics or firmware; only the kernel's log says which.
  return {
    check,
    state: 'failed',
    detail:
      onBus.length === 0
        ? 'the driver lists no GPU'
        : `${onBus.length} on the bus, and the compute driver lists none of it: no PCIe atomics, no firmware, or hidden from this container`,
    fix: "sudo dmesg | grep -iE 'kfd|amdgpu.*(firmware|atomic)'",
  };
}

function driver(machine: Machine): Finding {
  const check = 'amdgpu driver';
  if (machine.list('/sys/module/amdgpu').length > 0) {
    const version = machine.read('/sys/module/amdgpu/version');
    const detail = version === undefined ? `of kernel ${machine.kernelRelease}` : `${version}, by DKMS`;
    return { check, state: 'ok', detail };
  }
  if (/\bnomodeset\b/.test(machine.read('/proc/cmdline') ?? '')) {
    const detail = 'not loaded: the kernel was started with nomodeset';
    const fix = "sudo sed -i 's/ *nomodeset//' /etc/default/grub && sudo update-grub && sudo reboot";
    return { check, state: 'failed', detail, fix };
  }
  // The variable is four bytes of attributes and one that says whether.
  const signedOnly = machine.read(SECURE_BOOT)?.endsWith('\x01') ?? false;
  return {
    check,
    state: 'failed',
    detail: `not loaded${signedOnly ? '; Secure Boot takes signed modules only, which a DKMS driver may not be' : ''}`,
    fix: signedOnly
      ? 'sudo modprobe amdgpu || sudo mokutil --import /var/lib/dkms/mok.pub'
      : 'sudo modprobe amdgpu && sudo dmesg | grep amdgpu',
  };
}

/** `/dev/kfd` and the render nodes. */
function nodes(machine: Machine, cards: readonly Card[], inContainer: boolean): Finding[] {
  const listed = machine
    .list('/dev/dri')
    .filter((name) => name.startsWith('renderD'))
    .map((name) => `/dev/dri/${name}`);
  // If other vendors' cards have render nodes too, only AMD's matter.
  const known = cards.flatMap(({ renderNode }) => renderNode ?? []);
  const rendering = known.length > 0 ? known : listed.length > 0 ? listed : ['/dev/dri/renderD128'];
  return [KFD, ...rendering].map((file) => {
    const owner = machine.ownership(file);
    if (owner === undefined) return absent(machine, file, inContainer);
    const refused = machine.refusal(file);
    const group = groupOf(machine, owner.gid);
    const told = `${group?.name ?? owner.gid}, mode ${owner.mode.toString(8).padStart(4, '0')}`;
    if (refused === undefined) return { check: file, state: 'ok', detail: `may be opened; group ${told}` };
    const detail = `may not be opened (${refused}); group ${told}`;
    if (refused !== 'EACCES') {
      // The mode allows it, the kernel does not: the node was made or mounted without leave to use the device.
      const fix = inContainer
        ? `docker run ${CONTAINER_FLAGS} … (in place of a volume)`
        : `sudo dmesg | grep -iE 'kfd|amdgpu'`;
      return { check: file, state: 'failed', detail, fix };
    }
    if (inContainer) {
      return { check: file, state: 'failed', detail, fix: `docker run ${CONTAINER_FLAGS} --group-add ${owner.gid} …` };
    }
    if ((owner.mode & 0o060) !== 0o060 || owner.gid === 0) {
      const kernelName = file.slice(file.lastIndexOf('/') + 1).replace(/\d+$/, '*');
      const rule = `KERNEL=="${kernelName}", GROUP="render", MODE="0660"`;
      const fix = `echo '${rule}' | sudo tee -a /etc/udev/rules.d/70-amdgpu.rules && sudo udevadm control --reload && sudo udevadm trigger`;
      return { check: file, state: 'failed', detail: `${detail}: no group that may`, fix };
    }
    if (group?.members.includes(machine.userName)) {
      const fix = `newgrp ${group.name}`;
      return { check: file, state: 'failed', detail: `${detail}, which this user joined after logging in`, fix };
    }
    const fix = `sudo usermod -aG ${group?.name ?? owner.gid} "$USER" && newgrp ${group?.name ?? owner.gid}`;
    return { check: file, state: 'failed', detail: `${detail}, in which this user is not`, fix };
  });
}

function absent(machine: Machine, file: string, inContainer: boolean): Finding {
  const found = { check: file, state: 'failed', detail: 'is not there' } as const;
  if (inContainer) return { ...found, fix: `docker run ${CONTAINER_FLAGS} …` };
  // Without a driver there is one thing to fix, and the driver's line says it.
  if (machine.list('/sys/module/amdgpu').length === 0) return found;
  return { ...found, fix: "sudo udevadm trigger && sudo dmesg | grep -iE 'kfd|amdgpu'" };
}

const LITTLE_BYTES = 1 << 30;
const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;

function memory({ node, target, vramBytes, usedVramBytes, gttBytes }: Card): Finding[] {
  if (vramBytes === undefined) return [];
  const check = `memory of ${target}, node ${node}`;
  const shared = gttBytes === undefined ? '' : `, and up to ${gigabytes(gttBytes)} of main memory`;
  if (usedVramBytes === undefined) return [{ check, state: 'info', detail: `${gigabytes(vramBytes)}${shared}` }];
  const free = vramBytes - usedVramBytes;
  const detail = `${gigabytes(free)} of ${gigabytes(vramBytes)} free${shared}`;
  // A card that shares main memory has little of its own, and is no worse for it.
  if (free >= LITTLE_BYTES || (gttBytes ?? 0) > 4 * vramBytes) return [{ check, state: 'ok', detail }];
  return [
    {
      check,
      state: 'info',
      detail: `${detail}: something else holds it`,
      fix: 'sudo fuser -v /dev/kfd /dev/dri/render*',
    },
  ];
}

/** Evidence that this is a container; undefined without any. */
export function containerOf(machine: Machine): string | undefined {
  if (machine.ownership('/.dockerenv') !== undefined) return 'Docker';
  if (machine.ownership('/run/.containerenv') !== undefined) return 'Podman';
  const cgroup = /\b(docker|kubepods|containerd|lxc|libpod)\b/.exec(machine.read('/proc/1/cgroup') ?? '');
  return cgroup?.[1];
}

const isWsl = (machine: Machine): boolean => /microsoft/i.test(machine.kernelRelease);

/** A group by its number, as `/etc/group` has it. */
function groupOf(
  machine: Machine,
  gid: number,
): { readonly name: string; readonly members: readonly string[] } | undefined {
  for (const line of (machine.read('/etc/group') ?? '').split('\n')) {
    const [name, , number, members = ''] = line.split(':');
    if (name && Number(number) === gid) return { name, members: members.split(',') };
  }
  return undefined;
}
