// SPDX-License-Identifier: MIT
// A pair of TUN devices, one on each side of a new network namespace, with an address for each side:
//
//   outside: own, peer inside        inside: own, peer outside; default route to the outside
//
// There is no translation of addresses.
// A program inside reaches the addresses of the namespace around it, and what that one forwards.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace ccatune {

[[noreturn]] inline void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

inline std::string text_of(std::uint32_t address) {
    const in_addr in{htonl(address)};
    char text[INET_ADDRSTRLEN];
    return inet_ntop(AF_INET, &in, text, sizeof text);
}

// A socket for the settings of the network namespace in which it was made.
class Settings {
public:
    Settings() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        if (socket_ < 0) fail("socket");
    }
    ~Settings() { close(socket_); }
    Settings(const Settings&) = delete;
    Settings& operator=(const Settings&) = delete;

    void set_addresses(const std::string& device, std::uint32_t own, std::uint32_t peer) const {
        request(device, own, SIOCSIFADDR, "SIOCSIFADDR");
        request(device, peer, SIOCSIFDSTADDR, "SIOCSIFDSTADDR");
    }

    void bring_up(const std::string& device) const {
        ifreq wanted = request_of(device);
        if (ioctl(socket_, SIOCGIFFLAGS, &wanted) < 0) fail(device + ": SIOCGIFFLAGS");
        wanted.ifr_flags = static_cast<short>(wanted.ifr_flags | IFF_UP | IFF_RUNNING);
        if (ioctl(socket_, SIOCSIFFLAGS, &wanted) < 0) fail(device + ": SIOCSIFFLAGS");
    }

    void set_default_route(std::uint32_t gateway) const {
        rtentry route{};
        put(&route.rt_dst, 0);
        put(&route.rt_genmask, 0);
        put(&route.rt_gateway, gateway);
        route.rt_flags = RTF_UP | RTF_GATEWAY;
        if (ioctl(socket_, SIOCADDRT, &route) < 0) fail("default route: SIOCADDRT");
    }

private:
    static ifreq request_of(const std::string& device) {
        ifreq request{};
        device.copy(request.ifr_name, IFNAMSIZ - 1);
        return request;
    }

    static void put(sockaddr* to, std::uint32_t address) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_addr.s_addr = htonl(address);
        std::memcpy(to, &in, sizeof in);
    }

    void request(const std::string& device, std::uint32_t address, unsigned long number, const char* name) const {
        ifreq wanted = request_of(device);
        put(&wanted.ifr_addr, address);
        if (ioctl(socket_, number, &wanted) < 0) fail(device + ": " + name);
    }

    int socket_;
};

// Returns two addresses of 100.64.0.0/24 that no device of this namespace has or leads to.
// Mahimahi's shells choose theirs in the same way.
inline std::pair<std::uint32_t, std::uint32_t> two_free_addresses() {
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) < 0) fail("getifaddrs");
    std::set<std::uint32_t> taken;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
        for (const sockaddr* address : {one->ifa_addr, one->ifa_dstaddr})
            if (address != nullptr && address->sa_family == AF_INET)
                taken.insert(ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
    freeifaddrs(all);
    constexpr std::uint32_t kNetwork = (100u << 24) | (64u << 16);
    std::uint32_t found[2], n = 0;
    for (std::uint32_t host = 1; host < 255 && n < 2; ++host)
        if (!taken.contains(kNetwork + host)) found[n++] = kNetwork + host;
    if (n < 2) throw std::runtime_error("expected two free addresses in 100.64.0.0/24, found fewer");
    return {found[0], found[1]};
}

// Makes a device in the current network namespace.
// A read gives a packet, a write delivers one; both return at once.
inline int make_tun(const std::string& name) {
    const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0) fail("/dev/net/tun");
    ifreq wanted{};
    name.copy(wanted.ifr_name, IFNAMSIZ - 1);
    wanted.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(tun, TUNSETIFF, &wanted) < 0) fail(name + ": TUNSETIFF");
    return tun;
}

struct Devices {
    int outside, inside;
    std::uint32_t outside_address;
};

// Makes both devices, and moves the calling process into the new namespace.
inline Devices make_devices() {
    const std::string name = "delay-" + std::to_string(getpid());
    const auto [outside_address, inside_address] = two_free_addresses();
    const int outside = make_tun(name);
    {
        const Settings settings;
        settings.set_addresses(name, outside_address, inside_address);
        settings.bring_up(name);
    }
    if (unshare(CLONE_NEWNET) < 0) fail("unshare");
    const int inside = make_tun("ingress");
    const Settings settings;
    settings.bring_up("lo");
    settings.set_addresses("ingress", inside_address, outside_address);
    settings.bring_up("ingress");
    settings.set_default_route(outside_address);
    return {outside, inside, outside_address};
}

}  // namespace ccatune
