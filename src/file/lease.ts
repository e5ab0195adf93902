import { leaseRows } from "../service/lease.ts";
import { nodes } from "../store/keys.ts";
import { tickOf } from "./namespace.ts";
import { theFile, theShare } from "./resource.ts";
import { putLease } from "./share.ts";

export const leaseShare = leaseRows({
  name: "Lease Share",
  on: "share",
  restype: "share",
  resource: "c",
  conditions: "none",
  snapshots: true,
  target: theShare,
  save: putLease,
});

/** A file's lease has no end, is broken at once, and is no part of what a snapshot shows. */
export const leaseFile = leaseRows({
  name: "Lease File",
  on: "file",
  resource: "o",
  conditions: "none",
  endless: true,
  target: theFile("look"),
  acquireTarget: theFile("lease"),
  save: (tx, { share }, file) => nodes.put(tx, [share.id, tickOf(file.id)], file),
});
