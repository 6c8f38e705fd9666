import { execFileSync, spawnSync } from 'node:child_process';

const ip = (...args: string[]) => execFileSync('ip', args, { stdio: 'pipe' });

/** Why hosts of the tests' own cannot be made here; undefined where they can. */
export function hostsAreMissing(): string | undefined {
  const name = `rocmforge-${process.pid}-probe`;
  const made = spawnSync('ip', ['netns', 'add', name], { encoding: 'utf8' });
  if (made.error) return 'there is no ip command (Debian: iproute2)';
  if (made.status !== 0) return `no network namespace can be made: ${made.stderr.trim()}`;
  spawnSync('ip', ['netns', 'del', name]);
  return undefined;
}

/** Hosts in network namespaces of their own, at one switch: what they reach of one another is what its ports let through. */
export class TestHosts {
  private readonly names: readonly string[];
  private readonly switchName: string;

  /** @param count at most 200 */
  constructor(readonly count: number) {
    const of = (host: string | number): string => `rocmforge-${process.pid}-${host}`;
    this.switchName = of('switch');
    this.names = Array.from({ length: count }, (_, host) => of(host));
    for (const name of [this.switchName, ...this.names]) ip('netns', 'add', name);
    ip('-n', this.switchName, 'link', 'add', 'bridge0', 'type', 'bridge');
    ip('-n', this.switchName, 'link', 'set', 'bridge0', 'up');
    for (const [host, name] of this.names.entries()) {
      ip('link', 'add', 'eth0', 'netns', name, 'type', 'veth', 'peer', 'name', `port${host}`, 'netns', this.switchName);
      ip('-n', this.switchName, 'link', 'set', `port${host}`, 'master', 'bridge0', 'up');
      ip('-n', name, 'addr', 'add', `${this.addressOf(host)}/24`, 'dev', 'eth0');
      ip('-n', name, 'link', 'set', 'eth0', 'up');
      ip('-n', name, 'link', 'set', 'lo', 'up');
    }
  }

  /** In a network that nothing routes. */
  addressOf(host: number): string {
    return `10.77.0.${host + 1}`;
  }

  /** A command that runs another on a host. */
  on(host: number): readonly string[] {
    return ['ip', 'netns', 'exec', this.names[host] as string];
  }

  /** Nothing reaches the host any more, and nobody is told so. */
  cut(host: number): void {
    ip('-n', this.switchName, 'link', 'set', `port${host}`, 'nomaster');
  }

  mend(host: number): void {
    ip('-n', this.switchName, 'link', 'set', `port${host}`, 'master', 'bridge0');
  }

  /** Everything that runs on them must have ended. */
  remove(): void {
    for (const name of [this.switchName, ...this.names]) spawnSync('ip', ['netns', 'del', name]);
  }
}
