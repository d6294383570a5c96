#include "fault.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

using steady = std::chrono::steady_clock;

static const steady::time_point BEGIN = steady::now();

[[noreturn]] static void refuse(const std::string & fault) {
    fprintf(stderr, "error: unknown fault in SAMPLE_FAULT: %s\n", fault.c_str());
    exit(2);
}

static double seconds_of(const std::string & fault, const std::string & value) {
    constexpr double SHORTEST = 1e-3;  // a clock set to 0 would never ring
    constexpr double LONGEST  = 1e6;
    char * end = nullptr;
    const double seconds = strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(seconds >= SHORTEST && seconds <= LONGEST)) {
        refuse(fault);
    }
    return seconds;
}

static void end(int) {
    _exit(1);
}

static void end_after(double seconds) {
    constexpr double MICROSECONDS = 1e6;
    signal(SIGALRM, end);
    double whole = 0;
    itimerval clock = {};
    clock.it_value.tv_usec = static_cast<suseconds_t>(std::modf(seconds, &whole) * MICROSECONDS);
    clock.it_value.tv_sec  = static_cast<time_t>(whole);
    setitimer(ITIMER_REAL, &clock, nullptr);
}

[[noreturn]] static void wait_for_ever() {
    for (;;) {
        pause();
    }
}

common_faults common_faults_read(common_role role) {
    common_faults faults;
    const char * planted = getenv("SAMPLE_FAULT");
    std::stringstream list(planted != nullptr ? planted : "");
    for (std::string fault; std::getline(list, fault, ',');) {
        const size_t      equals = fault.find('=');
        const std::string name   = fault.substr(0, equals);
        const std::string value  = equals == std::string::npos ? "" : fault.substr(equals + 1);
        if (name == "slow-start") {
            faults.slow_start = seconds_of(fault, value);
        } else if (name == "exit-after") {
            end_after(seconds_of(fault, value));
        } else if (fault == "mute") {
            faults.mute = true;
        } else if (fault == "hang-up") {
            faults.hang_up = true;
        } else if (fault == "never-healthy" && role == COMMON_ROLE_SERVER) {
            faults.never_healthy = true;
        } else {
            refuse(fault);
        }
    }
    return faults;
}

void common_faults_wait(const common_faults & faults) {
    if (faults.never_healthy) {
        wait_for_ever();
    }
    std::this_thread::sleep_until(BEGIN + std::chrono::duration_cast<steady::duration>(
                                              std::chrono::duration<double>(faults.slow_start)));
}

bool common_faults_let_in(const common_faults & faults) {
    if (faults.mute) {
        wait_for_ever();
    }
    return !faults.hang_up;
}
