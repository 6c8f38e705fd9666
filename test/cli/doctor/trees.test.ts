import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { runtimeMissing } from '../../../src/cli/doctor/amd-runtime.js';
import { targetOf } from '../../../src/cli/doctor/cards.js';
import { codeObjectFindings } from '../../../src/cli/doctor/code-objects.js';
import { cardFindings } from '../../../src/cli/doctor/doctor.js';
import type { Finding } from '../../../src/cli/doctor/finding.js';
import { machineAt } from '../../../src/cli/doctor/machine.js';
import { cardTree, machineOf, type Tree, type TreeCard } from '../../support/machine-tree.js';

const NAVI31 = { version: 110000, name: 'navi31' };
const INSIDE = { groups: [1000, 992] };
const [KFD, RENDER] = ['/dev/kfd', '/dev/dri/renderD128'];

/** Code objects of the targets named, which nobody loads. */
function kernelsOf(...targets: string[]): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  for (const target of targets) {
    mkdirSync(path.join(folder, target));
    writeFileSync(path.join(folder, target, 'manifest.json'), '{"files": [{}, {}]}');
  }
  return folder;
}
const kernels = kernelsOf('gfx1100', 'gfx942');

/** Failed and informative findings: each line that is not ok, by its check. */
function wrong(findings: readonly Finding[]): Record<string, readonly [state: string, detail: string, fix?: string]> {
  return Object.fromEntries(
    findings
      .filter(({ state }) => state !== 'ok')
      .map(({ check, state, detail, fix }) => [check, fix === undefined ? [state, detail] : [state, detail, fix]]),
  );
}
const inspected = (tree: Tree, rest: Parameters<typeof machineOf>[1] = INSIDE) =>
  cardFindings(machineOf(tree, rest), kernels);
const without = (tree: Tree, ...gone: string[]): Tree =>
  Object.fromEntries(Object.entries(tree).filter(([name]) => !gone.some((prefix) => name.startsWith(prefix))));

describe('doctor, of a machine', () => {
  it('where all is well, names the card, its driver, who may open it, its memory and its code objects', () => {
    expect(inspected(cardTree(NAVI31))).toEqual([
      { check: 'AMD card', state: 'ok', detail: 'gfx1100 (navi31)' },
      { check: 'amdgpu driver', state: 'ok', detail: 'of kernel 6.12.0-amd64' },
      { check: KFD, state: 'ok', detail: 'may be opened; group render, mode 0660' },
      { check: RENDER, state: 'ok', detail: 'may be opened; group render, mode 0660' },
      {
        check: 'memory of gfx1100, node 1',
        state: 'ok',
        detail: '23.0 GB of 24.0 GB free, and up to 16.0 GB of main memory',
      },
      { check: 'code objects', state: 'ok', detail: 'of gfx1100 (2 files), gfx942 (2 files)' },
      { check: 'code objects for gfx1100', state: 'ok', detail: 'its own' },
    ]);
  });

  it('whose driver comes from AMD, tells its version', () => {
    const findings = inspected({ ...cardTree(NAVI31), '/sys/module/amdgpu/version': '6.10.5\n' });
    expect(findings).toContainEqual({ check: 'amdgpu driver', state: 'ok', detail: '6.10.5, by DKMS' });
  });

  it('without a card, has nothing to fix', () => {
    expect(wrong(inspected({}))).toEqual({ 'AMD card': ['missing', 'none on the bus; the host device serves'] });
  });

  it('that is WSL, says that its way to a card was never tried', () => {
    const findings = inspected({}, { kernelRelease: '5.15.167.4-microsoft-standard-WSL2' });
    expect(wrong(findings)['AMD card']?.[1]).toMatch(/WSL has no \/dev\/kfd/);
  });

  it('whose card no driver has taken, loads the driver', () => {
    const tree = without(cardTree(NAVI31), '/sys/module', '/sys/class', '/dev');
    expect(wrong(inspected(tree))).toEqual({
      'AMD card': ['failed', '1 on the bus, and no driver has taken it'],
      'amdgpu driver': ['failed', 'not loaded', 'sudo modprobe amdgpu && sudo dmesg | grep amdgpu'],
      [KFD]: ['failed', 'is not there'],
      [RENDER]: ['failed', 'is not there'],
    });
  });

  it('that was started with nomodeset, takes it off the kernel’s command line', () => {
    const tree = {
      ...without(cardTree(NAVI31), '/sys/module', '/sys/class', '/dev'),
      '/proc/cmdline': 'quiet nomodeset',
    };
    expect(wrong(inspected(tree))['amdgpu driver']).toEqual([
      'failed',
      'not loaded: the kernel was started with nomodeset',
      "sudo sed -i 's/ *nomodeset//' /etc/default/grub && sudo update-grub && sudo reboot",
    ]);
  });

  it('that starts signed modules only, enrols the key', () => {
    const variable = '/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c';
    const tree = { ...without(cardTree(NAVI31), '/sys/module', '/sys/class', '/dev'), [variable]: '\x06\0\0\0\x01' };
    expect(wrong(inspected(tree))['amdgpu driver']).toEqual([
      'failed',
      expect.stringContaining('Secure Boot takes signed modules only'),
      'sudo modprobe amdgpu || sudo mokutil --import /var/lib/dkms/mok.pub',
    ]);
  });

  it('whose compute driver passed the card over, asks the kernel why', () => {
    const tree = without(cardTree(NAVI31), '/sys/class/kfd/kfd/topology/nodes/1');
    expect(wrong(inspected(tree))).toEqual({
      'AMD card': [
        'failed',
        expect.stringContaining('no PCIe atomics, no firmware'),
        "sudo dmesg | grep -iE 'kfd|amdgpu.*(firmware|atomic)'",
      ],
    });
  });

  it('whose user is in no group that may, joins it', () => {
    const fix = 'sudo usermod -aG render "$USER" && newgrp render';
    const detail = 'may not be opened (EACCES); group render, mode 0660, in which this user is not';
    expect(wrong(inspected(cardTree(NAVI31), {}))).toEqual({
      [KFD]: ['failed', detail, fix],
      [RENDER]: ['failed', detail, fix],
    });
  });

  it('whose user joined the group after logging in, starts a shell that knows', () => {
    const tree = { ...cardTree(NAVI31), '/etc/group': 'render:x:992:grace,ada\n' };
    expect(wrong(inspected(tree, {}))[KFD]).toEqual([
      'failed',
      expect.stringContaining('joined after logging in'),
      'newgrp render',
    ]);
  });

  it('whose node belongs to root alone, writes a rule for udev', () => {
    const tree = { ...cardTree(NAVI31), [KFD]: { mode: 0o600, gid: 0 } };
    expect(wrong(inspected(tree))).toEqual({
      [KFD]: [
        'failed',
        'may not be opened (EACCES); group root, mode 0600: no group that may',
        `echo 'KERNEL=="kfd", GROUP="render", MODE="0660"' | sudo tee -a /etc/udev/rules.d/70-amdgpu.rules && sudo udevadm control --reload && sudo udevadm trigger`,
      ],
    });
  });

  it('that lost /dev/kfd, has udev make it', () => {
    expect(wrong(inspected(without(cardTree(NAVI31), KFD)))).toEqual({
      [KFD]: ['failed', 'is not there', "sudo udevadm trigger && sudo dmesg | grep -iE 'kfd|amdgpu'"],
    });
  });

  it('that is a container without the devices, names the flags', () => {
    const tree = { ...without(cardTree(NAVI31), '/dev'), '/.dockerenv': '' };
    const fix = 'docker run --device=/dev/kfd --device=/dev/dri …';
    expect(wrong(inspected(tree))).toEqual({
      container: ['info', 'Docker'],
      [KFD]: ['failed', 'is not there', fix],
      [RENDER]: ['failed', 'is not there', fix],
    });
  });

  it('that is a container whose user has no group of the host, names the group by its number', () => {
    const tree = { ...cardTree(NAVI31), '/run/.containerenv': '', '/etc/group': 'root:x:0:\n' };
    const found = wrong(inspected(tree, {}));
    expect(found.container).toEqual(['info', 'Podman']);
    expect(found[KFD]).toEqual([
      'failed',
      'may not be opened (EACCES); group 992, mode 0660',
      'docker run --device=/dev/kfd --device=/dev/dri --group-add 992 …',
    ]);
  });

  it('that is a pod into which the nodes were mounted without leave to use them, says so', () => {
    const tree = {
      ...cardTree(NAVI31),
      '/proc/1/cgroup': '0::/kubepods/burstable/pod1',
      [KFD]: { mode: 0o666, gid: 0, refusal: 'EPERM' },
    };
    const found = wrong(inspected(tree));
    expect(found.container).toEqual(['info', 'kubepods']);
    expect(found[KFD]?.slice(1)).toEqual([
      'may not be opened (EPERM); group root, mode 0666',
      'docker run --device=/dev/kfd --device=/dev/dri … (in place of a volume)',
    ]);
  });

  it('whose card has no code objects, builds them', () => {
    expect(wrong(inspected(cardTree({ version: 100306 })))).toEqual({
      'code objects for gfx1036': ['failed', 'none', 'npm run build:kernels -- --target gfx1036'],
    });
  });

  it('whose card has none of its own, takes those of its kind', () => {
    const findings = cardFindings(machineOf(cardTree({ version: 110502 }), INSIDE), kernelsOf('gfx11-generic'));
    expect(findings.at(-1)).toEqual({
      check: 'code objects for gfx1152',
      state: 'ok',
      detail: 'those of gfx11-generic',
    });
  });

  it('with nothing built, builds for the card that is there', () => {
    const findings = cardFindings(machineOf(cardTree({ version: 90402 }), INSIDE), kernelsOf());
    expect(wrong(findings)['code objects']).toEqual([
      'missing',
      'none built',
      'npm run build:kernels -- --target gfx942',
    ]);
  });

  it('without a card and with nothing built, suggests nothing', () => {
    const [codeObjects] = codeObjectFindings([], kernelsOf());
    expect(codeObjects).toMatchObject({ check: 'code objects', state: 'info' });
    expect(codeObjects).not.toHaveProperty('fix');
  });

  it('whose card’s memory something else holds, asks who', () => {
    const tree = cardTree({ ...NAVI31, usedVramBytes: 23.5e9 });
    expect(wrong(inspected(tree))).toEqual({
      'memory of gfx1100, node 1': [
        'info',
        expect.stringMatching(/^0\.5 GB of 24\.0 GB free/),
        'sudo fuser -v /dev/kfd /dev/dri/render*',
      ],
    });
  });

  it('whose card shares main memory, does not mind that its own is little', () => {
    const tree = cardTree({ version: 110000, vramBytes: 0.5e9, usedVramBytes: 0.4e9, gttBytes: 16e9 });
    expect(wrong(inspected(tree))).toEqual({});
  });

  it('with two cards, one of which no kernel fits, tells which', () => {
    const findings = inspected(cardTree(NAVI31, { version: 110003 }));
    expect(findings[0]?.detail).toBe('gfx1100 (navi31), gfx1103');
    expect(Object.keys(wrong(findings))).toEqual(['code objects for gfx1103']);
  });

  it('without AMD’s library, installs it alone, as the distribution has it', () => {
    const mendOn = (id: string) => runtimeMissing(machineOf({ '/etc/os-release': id }), 'no file', 1).fix;
    expect(mendOn('ID=ubuntu\nID_LIKE=debian')).toBe("sudo apt-get install '^libamdhip64-[0-9]+$'");
    expect(mendOn('ID="nobara"\nID_LIKE="rhel centos fedora"')).toBe('sudo dnf install rocm-hip');
    expect(mendOn('ID=arch')).toBe('sudo pacman -S hip-runtime-amd');
    expect(mendOn('ID=void')).toMatch(/^install hip-runtime-amd of AMD’s repository/);
  });

  it('whose ROCm lies where the loader does not look, names its folder', () => {
    const tree = { '/opt/rocm-6.4.1/lib/libamdhip64.so.6': '' };
    expect(runtimeMissing(machineOf(tree), 'cannot open shared object file', 1)).toEqual({
      check: 'HIP runtime',
      state: 'failed',
      detail: '/opt/rocm-6.4.1/lib/libamdhip64.so.6 is not where the loader looks',
      fix: 'export ROCM_PATH=/opt/rocm-6.4.1',
    });
  });

  it('whose library lacks another, asks the loader which', () => {
    const tree = { '/usr/lib64/libamdhip64.so.6': '' };
    expect(runtimeMissing(machineOf(tree), 'libnuma.so.1: cannot open', 1)).toMatchObject({
      detail: '/usr/lib64/libamdhip64.so.6 cannot be loaded: libnuma.so.1: cannot open',
      fix: "ldd /usr/lib64/libamdhip64.so.6 | grep 'not found'",
    });
  });

  it('whose library sees no GPU where the driver lists one, fails; without a card it does not', () => {
    expect(runtimeMissing(machineOf({}), 'hipErrorNoDevice', 1)).toMatchObject({
      state: 'failed',
      fix: expect.stringMatching(/^AMD_LOG_LEVEL=3 /),
    });
    expect(runtimeMissing(machineOf({}), 'hipErrorNoDevice', 0).state).toBe('missing');
  });
});

describe('doctor, of the environment', () => {
  const set = (env: Record<string, string>, ...cards: TreeCard[]) =>
    wrong(inspected(cardTree(...cards), { ...INSIDE, env }));

  it.each([
    ['11.0.0', 100306, 'info', 'shows gfx1036 as gfx1100: right only where both have the same instructions'],
    ['11.0.0', 110000, 'info', 'shows gfx1100 as gfx1100, which it is'],
    ['9.4.2', 110000, 'info', 'shows gfx1100 as gfx942; there are code objects of its own, which need no override'],
    ['10.3.0', 110000, 'failed', 'shows gfx1100 as gfx1030, for which there are no code objects'],
    ['gfx1100', 110000, 'failed', 'gfx1100 is not a version such as 11.0.0'],
  ])('HSA_OVERRIDE_GFX_VERSION=%s on %i is %s', (value, version, state, detail) => {
    const found = set({ HSA_OVERRIDE_GFX_VERSION: value }, { version });
    expect(found.HSA_OVERRIDE_GFX_VERSION).toEqual([state, detail, 'unset HSA_OVERRIDE_GFX_VERSION']);
  });

  it.each([
    ['1', ['info', '1: 1 of 2 cards to be seen, renumbered from 0 (--gpu)']],
    ['0,7,1', ['info', '0,7,1: 1 of 2 cards to be seen, renumbered from 0 (--gpu)', 'unset HIP_VISIBLE_DEVICES']],
    ['-1', ['failed', '-1: 0 of 2 cards to be seen', 'unset HIP_VISIBLE_DEVICES']],
    ['', ['info', 'set and empty, which hides all cards or none', 'unset HIP_VISIBLE_DEVICES']],
  ])('HIP_VISIBLE_DEVICES=%s leaves what it says', (value, expected) => {
    expect(set({ HIP_VISIBLE_DEVICES: value }, NAVI31, NAVI31)).toEqual({ HIP_VISIBLE_DEVICES: expected });
  });

  it('ROCR_VISIBLE_DEVICES takes a card’s own name', () => {
    const found = set({ ROCR_VISIBLE_DEVICES: 'GPU-1234abcd' }, NAVI31);
    expect(found.ROCR_VISIBLE_DEVICES?.[0]).toBe('info');
  });
});

it.each([
  [90010, 'gfx90a'],
  [90402, 'gfx942'],
  [90006, 'gfx906'],
  [100300, 'gfx1030'],
  [110501, 'gfx1151'],
  [120001, 'gfx1201'],
])('a gfx_target_version of %i is %s', (version, target) => expect(targetOf(version)).toBe(target));

describe('a machine in a folder', () => {
  const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const tree = cardTree(NAVI31);
  for (const [name, file] of Object.entries(tree)) {
    mkdirSync(path.join(root, path.dirname(name)), { recursive: true });
    writeFileSync(path.join(root, name), typeof file === 'string' ? file : '');
  }

  it('is read as the one that is not there', () => {
    const findings = cardFindings(machineAt(root), kernels);
    expect(findings.find(({ check }) => check === 'AMD card')?.detail).toBe('gfx1100 (navi31)');
    expect(findings.find(({ check }) => check === KFD)?.state).toBe('ok');
    expect(findings.find(({ check }) => check === 'memory of gfx1100, node 1')?.state).toBe('ok');
    rmSync(path.join(root, 'dev'), { recursive: true });
    expect(cardFindings(machineAt(root), kernels).find(({ check }) => check === KFD)?.detail).toBe('is not there');
  });
});
