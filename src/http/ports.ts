import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Server as SecureServer } from "node:tls";
import type { Clock } from "../base/time.ts";
import type { HttpPort, PortOptions } from "./fronts.ts";
import { drained, httpServer } from "./listener.ts";

/** Opens a port on this very thread. */
export async function openHere(
  { serve, host, port, tls }: Omit<PortOptions, "service">,
  clock: Clock,
): Promise<HttpPort> {
  const server = httpServer({ serve, tls, clock });
  server.listen(port, host);
  await once(server, "listening");
  return {
    address: server.address() as AddressInfo,
    setCertificate(changed) {
      if (server instanceof SecureServer) server.setSecureContext(changed);
    },
    drained: () => drained(server),
  };
}
