import { createHmac, type KeyObject } from "node:crypto";
import type { Delegation } from "./sas.ts";

/**
 * A user delegation key. It is derived from a key of the account and from what is known of it, so nothing is
 * stored, it holds after a restart, and a new account key revokes it.
 */
export function delegationKey(key: KeyObject, account: string, delegation: Delegation): Buffer {
  const { user, tenant, start, expiry, service, version, boundTenant = "" } = delegation;
  const parts = ["user delegation key", account, user, tenant, start, expiry, service, version];
  // JSON keeps the parts apart, whatever they hold.
  return createHmac("sha256", key)
    .update(JSON.stringify([...parts, boundTenant]))
    .digest();
}
