/** Bits of an access mask (MS-SMB2 2.2.13.1.1). */
export const access = {
  readData: 0x1,
  writeData: 0x2,
  appendData: 0x4,
  readEa: 0x8,
  writeEa: 0x10,
  execute: 0x20,
  deleteChild: 0x40,
  readAttributes: 0x80,
  writeAttributes: 0x100,
  delete: 0x10000,
  readControl: 0x20000,
  writeDac: 0x40000,
  writeOwner: 0x80000,
  synchronize: 0x100000,
  systemSecurity: 0x1000000,
  maximumAllowed: 0x2000000,
} as const;

/** All that can be done to a file. */
export const FILE_ALL = 0x001f01ff;

const GENERIC_ALL = 0x10000000;
const GENERIC_EXECUTE = 0x20000000;
const GENERIC_WRITE = 0x40000000;
const GENERIC_READ = 0x80000000;
const GENERICS: readonly (readonly [generic: number, meant: number])[] = [
  [GENERIC_ALL, FILE_ALL],
  [GENERIC_EXECUTE, 0x1200a0],
  [GENERIC_WRITE, 0x120116],
  [GENERIC_READ, 0x120089],
];

/** An access mask with the generic bits written out; `most` is what the maximum stands for. */
export function mappedAccess(asked: number, most: number): number {
  let mapped = asked & 0x0fffffff & ~GENERIC_ALL;
  for (const [generic, meant] of GENERICS) if ((asked & generic) !== 0) mapped |= meant;
  if ((mapped & access.maximumAllowed) !== 0) mapped = (mapped & ~access.maximumAllowed) | most;
  return mapped;
}

/** Opens that only look at attributes neither break an oplock nor stand in the way of one. */
export const isStatOpen = (granted: number): boolean =>
  (granted & ~(access.synchronize | access.readAttributes | access.writeAttributes)) === 0;

/** For leases also those that read the security descriptor. */
export const isLeaseStatOpen = (granted: number): boolean =>
  isStatOpen(granted & ~access.readControl);
