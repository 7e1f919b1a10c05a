/**
 * Gives up unix sockets once the proxy listens: accepting connections needs no new socket. A unix socket would lead to
 * daemons of the host and to other workers, which no guard of addresses sees.
 */
import { ALLOW, errno, IF_EQUAL, type Instruction, installFilter, LOAD, OFFSET, RETURN } from "../../native/seccomp.ts";
import { NR, SECCOMP_ARCH } from "../../native/syscalls.ts";

const AF_UNIX = 1;
const EPERM = 1;
const EAFNOSUPPORT = 97;

const program = (): Instruction[] => [
  [LOAD, 0, 0, OFFSET.arch],
  [IF_EQUAL, 1, 0, SECCOMP_ARCH],
  [RETURN, 0, 0, errno(EPERM)],
  [LOAD, 0, 0, OFFSET.number],
  [IF_EQUAL, 0, 3, NR.socket],
  [LOAD, 0, 0, OFFSET.arg0],
  [IF_EQUAL, 0, 1, AF_UNIX],
  [RETURN, 0, 0, errno(EAFNOSUPPORT)],
  [RETURN, 0, 0, ALLOW],
];

/** False without confinement, as from source before the first build. */
export const giveUpUnixSockets = (): boolean => installFilter(program());
