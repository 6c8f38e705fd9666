import { loadAddon } from '../../executor/device/addon.js';
import { createLogger } from '../../shared/log.js';

/**
 * Tells the service manager that this process serves, and from then on, where it keeps watch, that the event loop turns: systemd's
 * `Type=notify`, `NotifyAccess=main` and `WatchdogSec=`. Nothing where none started this process.
 *
 * @param status one line for `systemctl status`
 */
export function notifyReady(status: string): void {
  if (!tell(`READY=1\nSTATUS=${oneLine(status)}`)) return;
  const { WATCHDOG_USEC, WATCHDOG_PID } = process.env;
  const microseconds = Number(WATCHDOG_USEC);
  if (!(microseconds > 0) || (WATCHDOG_PID !== undefined && Number(WATCHDOG_PID) !== process.pid)) return;
  // Twice as often as is asked for: one that is late is none that is missing.
  setInterval(() => tell('WATCHDOG=1'), microseconds / 2000).unref();
}

/** Tells it that this process ends, once what is under way has. */
export function notifyStopping(status: string): void {
  tell(`STOPPING=1\nSTATUS=${oneLine(status)}`);
}

function tell(state: string): boolean {
  if (process.env.NOTIFY_SOCKET === undefined) return false;
  try {
    return loadAddon().notifyServiceManager(state);
  } catch (error) {
    // A serving process continues: the manager itself decides how long it waits.
    createLogger('service').warn({ err: error }, 'the service manager was not notified');
    return false;
  }
}

const oneLine = (text: string): string => text.replace(/\s+/g, ' ');
