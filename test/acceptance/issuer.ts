import http from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

/** A small issuer of tokens on this machine, whose keys the test can change. */
export type Issuer = {
  readonly url: string;
  readonly tenant: string;
  /** A token for somebody, with more claims or others. */
  token(oid: string, claims?: Readonly<Record<string, unknown>>): Promise<string>;
  /** From now on it signs with a new key, and publishes that one alone. */
  rotate(): Promise<void>;
  stop(): void;
};

export async function startIssuer(): Promise<Issuer> {
  const tenant = "11111111-2222-4333-8444-555555555555";
  let kid = 0;
  let pair = await generateKeyPair("RS256");
  const server = http.createServer(async (incoming, outgoing) => {
    const path = incoming.url ?? "";
    const keys = [{ ...(await exportJWK(pair.publicKey)), kid: String(kid), alg: "RS256" }];
    const body = path.endsWith("/.well-known/openid-configuration")
      ? { issuer: url, jwks_uri: `${url}/keys` }
      : { keys };
    outgoing.setHeader("Content-Type", "application/json");
    outgoing.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${tenant}`;
  return {
    url,
    tenant,
    token: (oid, claims = {}) =>
      new SignJWT({ iss: url, aud: "https://storage.azure.com", oid, tid: tenant, ...claims })
        .setProtectedHeader({ alg: "RS256", kid: String(kid) })
        .setIssuedAt()
        .setExpirationTime(claims.exp === undefined ? "1h" : Number(claims.exp))
        .sign(pair.privateKey),
    async rotate() {
      pair = await generateKeyPair("RS256");
      kid++;
    },
    stop: () => void server.close(),
  };
}
