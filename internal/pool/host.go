package pool

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// lookupTimeout bounds the look-up of a host name when an endpoint joins.
const lookupTimeout = 2 * time.Second

// canonical is the one spelling of an IP address that [addressesOf] uses too.
func canonical(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	return a.Unmap().WithZone("").String()
}

// CanonicalAddress is the one spelling of an address: an IP and a port as
// [netip.AddrPort] writes them, IPv4 never mapped into IPv6. What is no IP and
// port stays as it is.
func CanonicalAddress(address string) string {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	const longest = 64 // "[…]:port" of an IPv6 address with a short zone
	var text [longest]byte
	canonical := netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).AppendTo(text[:0])
	if string(canonical) == address {
		return address // nearly always, and then nothing is allocated
	}
	return string(canonical)
}

// addressesOf are the IP addresses that an endpoint's reports may come from:
// those of its own host.
func addressesOf(address string) []string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{canonical(host)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil // it can serve, and not report
	}
	for i := range found {
		found[i] = canonical(found[i])
	}
	return found
}
