import { leaseRows } from "../service/lease.ts";
import { refusePending } from "./history.ts";
import { putBlobRecord, putContainerRecord, theBlob, theContainer } from "./resource.ts";

export const leaseContainer = leaseRows({
  name: "Lease Container",
  on: "container",
  restype: "container",
  resource: "c",
  target: theContainer,
  save: putContainerRecord,
});

export const leaseBlob = leaseRows({
  name: "Lease Blob",
  on: "blob",
  resource: "o",
  target: theBlob,
  save(tx, place, record) {
    refusePending(record);
    putBlobRecord(tx, place, record);
  },
});
